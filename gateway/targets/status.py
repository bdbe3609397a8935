"""How the targets and this device's connection stand, for an operator: values that a JSON document is made of."""

from __future__ import annotations

from typing import Any

from gateway.targets.connectivity import ConnectivityWatch
from gateway.targets.registry import Targets
from gateway.targets.replica import Replica
from gateway.targets.target import Target


def targets_status(targets: Targets, now: float) -> dict[str, Any]:
    """Return every target by name, with each of its addresses; `now` in monotonic seconds."""
    return {target.name: _target(target, now) for target in targets}


def connectivity_status(watch: ConnectivityWatch, now: float) -> dict[str, Any]:
    """Return how this device is connected, and since when."""
    return {"state": watch.state, "for_s": round(now - watch.since, 1)}


def _target(target: Target, now: float) -> dict[str, Any]:
    standing = target.standing(now)
    return {
        "health": standing.health,
        "detail": standing.detail,
        "back_in_s": _rounded(standing.back_in_s),
        "models": dict(target.settings.models),
        "in_flight": target.in_flight,
        "waiting": target.pool.waiting,
        "max_waiting": target.settings.max_waiting,
        "endpoints": [_replica(replica, now) for replica in target.pool],
    }


def _replica(replica: Replica, now: float) -> dict[str, Any]:
    health, detail, back_in_s = replica.standing(now)
    state = replica.state
    return {
        "endpoint": replica.endpoint.text,
        "health": health,
        "detail": detail,
        "back_in_s": _rounded(back_in_s),
        "breaker": replica.breaker.state(now),
        "in_flight": replica.in_flight,
        "places": replica.places,
        "running": None if state is None else state.running,
        "waiting": None if state is None else state.waiting,
        "provider": None if state is None else state.provider,
        "providers": [] if state is None else [use.model_dump(mode="json") for use in state.providers],
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

"""What operators look at: the programs, the targets' states, the policy in force, the metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.admin import paths
from gateway.admin.app import Call, Document, Route
from gateway.admin.policy_calls import as_json
from gateway.kept.room import KeptRoom
from gateway.metrics.requests import RequestMetrics
from gateway.policies.held import Held
from gateway.policies.holder import Version
from gateway.policies.rollout import Rollout
from gateway.targets.connectivity import ConnectivityWatch
from gateway.targets.registry import Targets
from gateway.targets.status import connectivity_status, targets_status
from observability import Meters
from observability.prometheus import MEDIA_TYPE, prometheus_text
from serving.in_flight import InFlight


class Views:
    """Shows how the gateway stands."""

    def __init__(
        self,
        rollout: Rollout,
        targets: Targets,
        connectivity: ConnectivityWatch,
        admission: InFlight,
        kept: KeptRoom,
        metrics: RequestMetrics,
        meters: Meters,
        *,
        clock: Callable[[], float],
    ) -> None:
        """Look at these rooms; `clock` gives monotonic seconds."""
        self._rollout = rollout
        self._targets = targets
        self._connectivity = connectivity
        self._admission = admission
        self._kept = kept
        self._metrics = metrics
        self._meters = meters
        self._clock = clock

    def routes(self) -> list[Route]:
        """The routes of these views."""
        return [
            Route("GET", paths.STATUS, self.status),
            Route("GET", paths.POLICY, self.policy),
            Route("GET", paths.VERSIONS, self.versions),
            Route("GET", paths.METRICS, self.metrics),
        ]

    async def status(self, call: Call) -> dict[str, Any]:
        """The whole: what runs, what can answer, by which policy."""
        now = self._clock()
        return {
            "gateway": {
                "in_flight": self._admission.count,
                "body_bytes": self._admission.bytes,
                "draining": self._admission.draining,
            },
            "kept": self._kept.to_json(),
            "policy": _policy(self._rollout),
            "connectivity": connectivity_status(self._connectivity, now),
            "targets": targets_status(self._targets, now),
            "outcomes": self._metrics.outcomes(),
        }

    async def policy(self, call: Call) -> dict[str, Any]:
        """The policy in force, what is on trial beside it, and what waits or was refused."""
        return _policy(self._rollout)

    async def metrics(self, call: Call) -> Document:
        """Everything that is counted and measured, as Prometheus reads it."""
        return Document(prometheus_text(self._meters), MEDIA_TYPE)

    async def versions(self, call: Call) -> dict[str, Any]:
        """Every version that was in force, and the journal of who put it there."""
        store = self._rollout.store
        return {
            "in_force": self._rollout.holder.in_force.stable.number,
            "versions": [entry.model_dump() for entry in store.versions],
            "history": [entry.model_dump() for entry in store.history()[-200:]],
        }


def _policy(rollout: Rollout) -> dict[str, Any]:
    now, stale, held = rollout.holder.in_force, rollout.stale, rollout.held
    change = rollout.last_change
    return {
        "in_force": _version(now.stable),
        "source": rollout.source,
        "stale": None
        if stale is None
        else {
            "seconds": rollout.stale_s,
            "file": stale.fault.file,
            "line": stale.fault.line,
            "column": stale.fault.column,
            "message": stale.fault.message,
        },
        "canary": None
        if now.canary is None
        else {**_version(now.canary.version), "percent": now.canary.percent, "by": now.canary.by},
        "shadow": None if now.shadow is None else {**_version(now.shadow.version), "percent": now.shadow.percent},
        "held": None if held is None else _held(held),
        "last_change": None if change is None else as_json(change),
    }


def _version(version: Version) -> dict[str, Any]:
    loaded = version.loaded
    return {
        "name": loaded.policy.name,
        "version": version.number,
        "digest": loaded.digest,
        "sha256": version.sha256,
        "origin": loaded.origin,
    }


def _held(held: Held) -> dict[str, Any]:
    judged = held.judged
    return {
        "id": held.id,
        **_version(judged.version),
        "replaces": held.replaces,
        "place": held.offer.place,
        "share": held.offer.share,
        "by": held.offer.by.who,
        "signed_by": list(held.signed_by),
        "missing": judged.missing,
        "looser": [
            {"words": one.words, "target": one.target, "class": one.data_class, "example": one.example}
            for one in judged.looser
        ],
    }

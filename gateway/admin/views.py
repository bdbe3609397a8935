"""What operators look at: the programs, the targets' states, the policy in force. `GET /status`, `GET /policy`."""

from __future__ import annotations

from typing import Any

from gateway.admin import paths
from gateway.admin.app import Call, Route
from gateway.admin.policy_calls import as_json
from gateway.policies.held import Held
from gateway.policies.holder import Version
from gateway.policies.rollout import Rollout
from gateway.targets.registry import Targets
from serving.in_flight import InFlight


class Views:
    """Shows how the gateway stands."""

    def __init__(self, rollout: Rollout, targets: Targets, admission: InFlight) -> None:
        """Look at these rooms."""
        self._rollout = rollout
        self._targets = targets
        self._admission = admission

    def routes(self) -> list[Route]:
        """The routes of these views."""
        return [
            Route("GET", paths.STATUS, self.status),
            Route("GET", paths.POLICY, self.policy),
            Route("GET", paths.VERSIONS, self.versions),
        ]

    async def status(self, call: Call) -> dict[str, Any]:
        """The whole: what runs, what can answer, by which policy."""
        return {
            "gateway": {"in_flight": self._admission.count, "draining": self._admission.draining},
            "policy": _policy(self._rollout),
            "targets": {
                target.name: {
                    "health": target.health.value,
                    "detail": target.detail,
                    "models": dict(target.settings.models),
                    "provider": target.state.provider if target.state else None,
                }
                for target in self._targets
            },
        }

    async def policy(self, call: Call) -> dict[str, Any]:
        """The policy in force, what is on trial beside it, and what waits or was refused."""
        return _policy(self._rollout)

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
        "by": held.offer.by.who,
        "signed_by": sorted(judged.candidate.people),
        "missing": judged.missing,
        "looser": [
            {"words": one.words, "target": one.target, "class": one.data_class, "example": one.example}
            for one in judged.looser
        ],
    }

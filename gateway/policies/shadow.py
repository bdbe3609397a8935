"""What a policy on trial would have decided: asked after a request is over, from the very inputs of its decision.

Nothing waits for it and nothing acts on it. It may take a tenth of the loop's time at most: after each answer there is
a rest of nine times as long, in which requests go by without it. So a slow candidate is asked less often, and records
say of how many it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.policies.holder import Version
from routing_policies.decide import decide
from routing_policies.eligibility import needs_exact_count
from routing_policies.snapshot import Snapshot
from routing_policies.verdict import Verdict
from routing_policies.view import RequestView

_REST = 9.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A policy on trial, and the request that it is asked about.

    Attributes:
        view: Measures the request as this policy has it measured.
    """

    version: Version
    view: Callable[[], RequestView]


class ShadowDesk:
    """Asks policies on trial, within a share of the time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin rested; `clock` gives monotonic seconds."""
        self._clock = clock
        self._rests_until = 0.0

    def ask(self, asked: Asked, snapshot: Snapshot, decided: Verdict) -> dict[str, Any] | None:
        """Return what the policy would have decided, as it stands in records; `None` during a rest."""
        began = self._clock()
        if began < self._rests_until:
            return None
        view = asked.view()
        policy = asked.version.loaded
        verdict = decide(policy, view, snapshot)
        windows = {name: target.capabilities.window for name, target in snapshot.targets.items()}
        inexact = needs_exact_count(policy, view, windows)
        ended = self._clock()
        self._rests_until = ended + _REST * (ended - began)
        return {**_record(asked.version, decided, verdict), "inexact": inexact}


def _record(version: Version, decided: Verdict, verdict: Verdict) -> dict[str, Any]:
    did, would = _targets(decided), _targets(verdict)
    return {
        "name": version.loaded.policy.name,
        "version": version.number,
        "digest": version.loaded.digest,
        "class": verdict.label.level.word,
        "from": did[0] if did else None,
        "to": would[0] if would else None,
        "eligible": would,
        "looser": sorted(set(would).difference(did)),
        "stricter": sorted(set(did).difference(would)),
        "reason": verdict.reason,
    }


def _targets(verdict: Verdict) -> list[str]:
    return [each.target for each in verdict.eligible]

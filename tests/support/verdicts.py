"""Verdicts made by hand, for what comes after the decision."""

from __future__ import annotations

from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.label import Label
from routing_policies.verdict import Eligible, Reason, Scores, Verdict


def verdict_for(policy: LoadedPolicy, label: Label, eligible: tuple[Eligible, ...]) -> Verdict:
    return Verdict(
        eligible=eligible,
        excluded={},
        scores=Scores(0.0, 0.0, 0.0),
        terms={},
        weights={},
        label=label,
        reason=Reason.HIGHEST_SCORE,
        rules=(),
        notes=(),
        policy_digest=policy.digest,
        digest="0" * 64,
    )

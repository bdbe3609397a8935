"""From settings to what the roll-out asks of policies."""

from __future__ import annotations

from gateway.policies.examine import Approvers, Demands
from gateway.settings import Settings
from serving.signatures import PublicKey


def demands_of(settings: Settings) -> Demands:
    """What this installation asks of a policy."""
    rollout = settings.rollout
    keys: dict[str, tuple[PublicKey, ...]] = {}
    for approver in rollout.approvers:
        keys[approver.person] = (*keys.get(approver.person, ()), approver.key)
    return Demands(frozenset(settings.targets), Approvers(keys), rollout.require_signature, rollout.four_eyes)

"""A policy that was read and compiled: what decisions are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from routing_policies.policy.conditions import Vocabulary
from routing_policies.policy.model import Policy
from routing_policies.policy.rules import HardRule, SoftRule
from routing_policies.policy.yaml_source import Source
from routing_policies.signals.deadline import DeadlineDefaults
from routing_policies.signals.label import LabelRules


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy that can decide.

    Attributes:
        policy: The document.
        origin: The file or built-in name it was read from.
        source: Its text, with the place of each value.
        digest: sha256 of the canonical document, hex.
        constraints: Hard rules in the document's order, constraints before invariants.
        preferences: Soft rules in the document's order.
        weights: Term to weight; they add up to 1.
        vocabulary: The names that the conditions read.
        label_rules: What turns findings and uninspected parts into classes.
        deadline_defaults: Budgets of requests that bring none.
    """

    policy: Policy
    origin: str
    source: Source
    digest: str
    constraints: tuple[HardRule, ...]
    preferences: tuple[SoftRule, ...]
    weights: Mapping[str, float]
    vocabulary: Vocabulary
    label_rules: LabelRules
    deadline_defaults: DeadlineDefaults

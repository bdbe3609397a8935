"""Rules with their conditions compiled, and what a hard one says of a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from routing_policies.policy.conditions import Answer, Condition, Evaluation


@dataclass(frozen=True, slots=True)
class HardRule:
    """A constraint or an invariant.

    Attributes:
        denied: Targets that are out where `when` holds.
        require: What a target must fulfil where `when` holds, or `None` for a rule that denies.
        settled: Target to the answer of `require`, where that does not depend on the request.
    """

    id: str
    when: Condition
    denied: frozenset[str] = frozenset()
    require: Condition | None = None
    settled: Mapping[str, Answer] = field(default_factory=dict)

    def permits(self, target: str, evaluation: Evaluation) -> Answer:
        """Whether a target may answer a request that `when` holds for. Only `TRUE` lets it; `ERROR` does not."""
        if self.require is None:
            return Answer.FALSE if target in self.denied else Answer.TRUE
        known = self.settled.get(target)
        if known is not None:
            return known
        evaluation.turn_to(target)
        return evaluation.surely(self.require)


@dataclass(frozen=True, slots=True)
class SoftRule:
    """A preference: what it adds to a target's score where `when` holds.

    Attributes:
        looks_at_target: Whether `when` reads something of that target.
    """

    id: str
    when: Condition
    target: str
    weight: float
    looks_at_target: bool = False

    def answer(self, evaluation: Evaluation) -> Answer:
        """What `when` says; `target` in it is the one that the rule is about."""
        if self.looks_at_target:
            evaluation.turn_to(self.target)
        return evaluation.likely(self.when)

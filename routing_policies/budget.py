"""What is left of a request's time, and how a prediction stands against it."""

from __future__ import annotations

from dataclasses import dataclass

from routing_policies.latency_model import BudgetKind, probability_within
from routing_policies.signals.deadline import Deadline
from routing_policies.snapshot import Prediction


@dataclass(frozen=True, slots=True)
class Budget:
    """Milliseconds left; `None` where there is no budget of the kind."""

    total_ms: float | None
    first_content_ms: float | None

    @classmethod
    def left(cls, deadline: Deadline, now: float) -> Budget:
        """What is left at `now`, in monotonic seconds."""
        return cls(deadline.remaining_total_ms(now), deadline.remaining_first_content_ms(now))

    @property
    def exists(self) -> bool:
        """Whether the request has a budget of either kind."""
        return self.total_ms is not None or self.first_content_ms is not None

    def probability(self, prediction: Prediction) -> float:
        """P(inside budget). Of two budgets the less likely one counts: both times of an answer rise together."""
        inside = 1.0
        if self.total_ms is not None:
            inside = probability_within(prediction, self.total_ms, BudgetKind.TOTAL)
        if self.first_content_ms is not None:
            inside = min(inside, probability_within(prediction, self.first_content_ms, BudgetKind.FIRST_CONTENT))
        return inside

    def share(self, prediction: Prediction) -> float:
        """The share of the budget that the prediction takes, 0 to 1; of two budgets the larger; 0 without one."""
        share = 0.0
        if self.total_ms is not None:
            share = _ratio(prediction.total_ms, self.total_ms)
        if self.first_content_ms is not None:
            share = max(share, _ratio(prediction.ttft_ms, self.first_content_ms))
        return share


def _ratio(needed_ms: float, left_ms: float) -> float:
    return 1.0 if left_ms <= 0.0 else min(1.0, needed_ms / left_ms)

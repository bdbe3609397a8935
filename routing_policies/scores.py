"""The request's three scores. The formulas, and an example worked by hand, are in docs/policies.md."""

from __future__ import annotations

from collections.abc import Iterable

from routing_policies.budget import Budget
from routing_policies.policy.model import Policy
from routing_policies.signals.label import DataClass
from routing_policies.signals.size import Size
from routing_policies.snapshot import Snapshot, TargetSnapshot
from routing_policies.verdict import Scores

UNKNOWN = 0.5


def score_request(
    policy: Policy, level: DataClass, size: Size, budget: Budget, snapshot: Snapshot, eligible: Iterable[str]
) -> Scores:
    """Score a request of a class and a size, with what is left of its time, against the targets that may answer it."""
    latency = _latency(budget, [snapshot.targets[name] for name in eligible])
    edge = next((snapshot.targets[n] for n, t in policy.targets.items() if t.on_device and n in snapshot.targets), None)
    share = None if edge is None else size_share(size, budget, edge)
    found = {"latency": latency, "size": share}
    return Scores(
        latency=UNKNOWN if latency is None else latency,
        privacy=level / DataClass.RESTRICTED,
        size=UNKNOWN if share is None else share,
        missing=tuple(name for name, value in found.items() if value is None),
    )


def size_share(size: Size, budget: Budget, target: TargetSnapshot) -> float | None:
    """The share of a target's window, or of what it can do in the budget, that a request takes: the larger of the two.

    Returns:
        0 to 1, or `None` where neither the window nor, with a budget, a prediction is known.
    """
    window, prediction = target.capabilities.window, target.prediction
    of_window = None if window is None else min(1.0, size.tokens.likely / window)
    if prediction is None or not budget.exists:
        return of_window
    of_budget = budget.share(prediction)
    return of_budget if of_window is None else max(of_window, of_budget)


def _latency(budget: Budget, targets: list[TargetSnapshot]) -> float | None:
    if not budget.exists:
        return 0.0
    return min((budget.share(t.prediction) for t in targets if t.prediction is not None), default=None)

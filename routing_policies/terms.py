"""The targets' terms and what they add up to. The formulas, and an example worked by hand, are in docs/policies.md."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence

from routing_policies.budget import Budget
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.policy.model import Target
from routing_policies.scores import UNKNOWN, size_share
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Prediction, Snapshot
from routing_policies.transforms import label_as_sent
from routing_policies.verdict import Terms
from routing_policies.view import RequestView

# Scores closer than this are equal: sums of the same shares differ in the last bits by the order of their addition.
_DECIMALS = 9
# As `Terms` has them.
_TERMS = ("deadline", "exposure", "fit", "cost", "energy", "quality")


def rate_targets(
    policy: LoadedPolicy,
    view: RequestView,
    snapshot: Snapshot,
    budget: Budget,
    eligible: Iterable[str],
    preferred: Mapping[str, float],
) -> dict[str, Terms]:
    """Rate the eligible targets; `preferred` is what the `prefer` rules that matched add to each."""
    asked = [(name, policy.policy.targets[name], snapshot.targets[name]) for name in eligible]
    costs = _cheapness([price_of(promise, view, found.prediction) for _, promise, found in asked])
    energies = _cheapness([_joules(promise, found.prediction) for _, promise, found in asked])
    weights = [policy.weights[term] for term in _TERMS]
    rated: dict[str, Terms] = {}
    for (name, promise, found), cost, energy in zip(asked, costs, energies, strict=True):
        share = size_share(view.size, budget, found)
        known = (
            _deadline(budget, found.prediction),
            _exposure(promise, view, policy),
            None if share is None else 1.0 - share,
            cost,
            energy,
            promise.quality,
        )
        rated[name] = _sum(known, weights, preferred.get(name, 0.0))
    return rated


def _sum(known: Sequence[float | None], weights: Sequence[float], preferred: float) -> Terms:
    """Weigh terms in the order of `_TERMS`; what is not known is in the middle."""
    missing: tuple[str, ...] = ()
    if None in known:
        missing = tuple([term for term, value in zip(_TERMS, known, strict=True) if value is None])
    terms = [UNKNOWN if value is None else value for value in known]
    score = round(preferred + sum(map(operator.mul, weights, terms)), _DECIMALS)
    deadline, exposure, fit, cost, energy, quality = terms
    return Terms(deadline, exposure, fit, cost, energy, quality, preferred, score, missing)


def _deadline(budget: Budget, prediction: Prediction | None) -> float | None:
    if not budget.exists:
        return 1.0
    return None if prediction is None else budget.probability(prediction)


def _exposure(promise: Target, view: RequestView, policy: LoadedPolicy) -> float:
    if promise.on_device:
        return 1.0
    level = label_as_sent(promise, view.label, policy.label_rules, view.task).level
    return 1.0 if level == DataClass.PUBLIC else 1.0 - level / promise.clearance


def price_of(promise: Target, view: RequestView, prediction: Prediction | None) -> float | None:
    """Return what a request would cost there, in the policy's currency; `None` where no price is declared."""
    if promise.price is None:
        return None
    output = view.output_cap if prediction is None else prediction.output_tokens
    return (view.size.tokens.likely * promise.price.input + output * promise.price.output) / promise.price.per


def _joules(promise: Target, prediction: Prediction | None) -> float | None:
    if promise.power is None or prediction is None:
        return None
    return promise.power.watts * prediction.total_ms / 1000.0


def _cheapness(amounts: Sequence[float | None]) -> list[float | None]:
    """One less each amount's share of the largest; all 1 where nothing costs anything."""
    largest = max([amount for amount in amounts if amount is not None], default=0.0)
    if largest <= 0.0:
        return [None if amount is None else 1.0 for amount in amounts]
    return [None if amount is None else 1.0 - amount / largest for amount in amounts]

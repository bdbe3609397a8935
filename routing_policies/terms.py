"""The targets' terms and what they add up to. The formulas, and an example worked by hand, are in docs/policies.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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


def rate_targets(
    policy: LoadedPolicy,
    view: RequestView,
    snapshot: Snapshot,
    budget: Budget,
    eligible: Iterable[str],
    preferred: Mapping[str, float],
) -> dict[str, Terms]:
    """Rate the eligible targets; `preferred` is what the `prefer` rules that matched add to each."""
    promises = {name: policy.policy.targets[name] for name in eligible}
    predictions = {name: snapshot.targets[name].prediction for name in promises}
    costs = _cheapness({name: price_of(promises[name], view, predictions[name]) for name in promises})
    energies = _cheapness({name: _joules(promises[name], predictions[name]) for name in promises})
    rated: dict[str, Terms] = {}
    for name, promise in promises.items():
        share = size_share(view.size, budget, snapshot.targets[name])
        known = {
            "deadline": _deadline(budget, predictions[name]),
            "exposure": _exposure(promise, view, policy),
            "fit": None if share is None else 1.0 - share,
            "cost": costs[name],
            "energy": energies[name],
            "quality": promise.quality,
        }
        rated[name] = _sum(known, policy.weights, preferred.get(name, 0.0))
    return rated


def _sum(known: Mapping[str, float | None], weights: Mapping[str, float], preferred: float) -> Terms:
    terms: dict[str, float] = {}
    missing: list[str] = []
    score = preferred
    for term, value in known.items():
        if value is None:
            missing.append(term)
        terms[term] = UNKNOWN if value is None else value
        score += weights[term] * terms[term]
    return Terms(**terms, preferred=preferred, score=round(score, _DECIMALS), missing=tuple(missing))


def _deadline(budget: Budget, prediction: Prediction | None) -> float | None:
    if not budget.exists:
        return 1.0
    return None if prediction is None else budget.probability(prediction)


def _exposure(promise: Target, view: RequestView, policy: LoadedPolicy) -> float:
    if promise.on_device:
        return 1.0
    level = label_as_sent(promise, view.label, policy.label_rules).level
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


def _cheapness(amounts: Mapping[str, float | None]) -> dict[str, float | None]:
    """One less each amount's share of the largest; all 1 where nothing costs anything."""
    largest = max((amount for amount in amounts.values() if amount is not None), default=0.0)
    return {
        name: None if amount is None else 1.0 - (amount / largest if largest > 0.0 else 0.0)
        for name, amount in amounts.items()
    }

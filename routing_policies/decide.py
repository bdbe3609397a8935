"""The decision: policy, request and the state of the targets in, a verdict out; the same for the same input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from routing_policies.budget import Budget
from routing_policies.eligibility import find_eligible
from routing_policies.input_digest import digest_inputs
from routing_policies.policy.conditions import Answer, Evaluation
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.policy.model import Late
from routing_policies.policy.rules import SoftRule
from routing_policies.scores import UNKNOWN, score_request
from routing_policies.snapshot import Snapshot
from routing_policies.terms import rate_targets
from routing_policies.transforms import transform_for
from routing_policies.verdict import Eligible, Exclusion, ExclusionKind, Reason, Terms, Verdict
from routing_policies.view import RequestView

# A target is likely to make it if it does so at least as often as not.
_LIKELY = UNKNOWN


def decide(policy: LoadedPolicy, view: RequestView, snapshot: Snapshot) -> Verdict:
    """Decide who may answer a request, and in which order to ask them.

    Hard rules first: what they exclude, no score brings back. Then the weighted sum of the terms.
    """
    budget = Budget.left(view.deadline, snapshot.now)
    evaluation = Evaluation.of_request(policy.vocabulary, view, snapshot)
    found = find_eligible(policy, view, snapshot, evaluation)
    leaning = Leaning.of(policy, evaluation)
    terms = rate_targets(policy, view, snapshot, budget, found.targets, leaning.by_target)
    order, unlikely = rank(policy, terms)
    excluded = dict(found.excluded)
    if terms and not order:
        late = Exclusion(ExclusionKind.BUDGET, "is unlikely to answer inside the budget")
        excluded |= dict.fromkeys(terms, late)
        terms = {}
    return Verdict(
        eligible=tuple(
            Eligible(name, transform_for(policy.policy.targets[name], view.label, view.task)) for name in order
        ),
        excluded=excluded,
        scores=score_request(policy.policy, view.label.level, view.size, budget, snapshot, found.targets),
        terms=terms,
        weights=policy.weights,
        label=view.label,
        reason=Reason.BUDGET_UNLIKELY if unlikely and order else _reason(order, terms, leaning),
        rules=(*found.matched, *(rule.id for rule in leaning.matched)),
        notes=(*view.hints.notes, *found.notes, *leaning.notes),
        policy_digest=policy.digest,
        digest=digest_inputs(policy.digest, view, snapshot),
    )


@dataclass(frozen=True, slots=True)
class Leaning:
    """The soft rules that matched, and what they add to each target."""

    matched: tuple[SoftRule, ...]
    by_target: Mapping[str, float]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, policy: LoadedPolicy, evaluation: Evaluation) -> Leaning:
        """Look at every soft rule; one that cannot be evaluated adds nothing."""
        matched: list[SoftRule] = []
        notes: list[str] = []
        by_target: dict[str, float] = {}
        for rule in policy.preferences:
            answer = rule.answer(evaluation)
            if answer is Answer.ERROR:
                notes.append(f"{rule.id}: `when` could not be evaluated, so the preference was left out")
            elif answer is Answer.TRUE:
                matched.append(rule)
                by_target[rule.target] = by_target.get(rule.target, 0.0) + rule.weight
        return cls(tuple(matched), by_target, tuple(notes))


def rank(policy: LoadedPolicy, terms: Mapping[str, Terms]) -> tuple[list[str], bool]:
    """Return the eligible targets, best first, and whether all are unlikely to make the budget.

    With `late: refuse`, none is left then.
    """
    unlikely = bool(terms) and all(t.deadline < _LIKELY for t in terms.values())
    if unlikely and policy.policy.defaults.late is Late.REFUSE:
        return [], True
    return _order(terms, by_likelihood=unlikely), unlikely


def _order(terms: Mapping[str, Terms], *, by_likelihood: bool) -> list[str]:
    """Best first; what is equal keeps the policy's order, since sorting is stable."""
    if by_likelihood:
        return sorted(terms, key=lambda name: (-terms[name].deadline, -terms[name].score))
    return sorted(terms, key=lambda name: -terms[name].score)


def _reason(order: list[str], terms: Mapping[str, Terms], leaning: Leaning) -> str:
    if len(order) < 2:
        return Reason.ONLY_ELIGIBLE if order else Reason.NONE_ELIGIBLE
    first, second = order[0], order[1]
    if leaning.matched:
        unmoved = min(terms, key=lambda name: terms[name].preferred - terms[name].score)
        if unmoved != first:
            rule = next(r for r in leaning.matched if (r.weight > 0) == (r.target == first))
            return f"{Reason.PREFERRED}:{rule.id}"
    return Reason.DECLARED_ORDER if terms[first].score == terms[second].score else Reason.HIGHEST_SCORE

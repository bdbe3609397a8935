"""What was decided, and why: enough to explain it, to replay it and to hold every attempt to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from routing_policies.signals.label import Label


class Transform(StrEnum):
    """What happens to a body before it leaves for a target."""

    NONE = "none"
    PSEUDONYMIZE = "pseudonymize"


@dataclass(frozen=True, slots=True)
class Eligible:
    """One target that may answer, and under which transform."""

    target: str
    transform: Transform = Transform.NONE


class ExclusionKind(StrEnum):
    """Why a target may not answer, in the order in which it is looked at.

    What no state can change comes first. So a target that is excluded as `down` would be asked if it were up.
    """

    NOT_CONFIGURED = "not_configured"
    MODEL = "model"
    CLEARANCE = "clearance"
    TAG = "tag"
    CONSTRAINT = "constraint"
    CAPABILITY = "capability"
    WINDOW = "window"
    DOWN = "down"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why one target may not answer: the first reason in the order of `ExclusionKind`.

    Attributes:
        rule: The constraint's id where one decided.
        detail: One clause for a person, without any content of the request.
        field: The field of the request that asks for what it cannot do.
        back_in_s: Seconds after which it can be asked again, where that is known.
    """

    kind: ExclusionKind
    detail: str
    rule: str | None = None
    field: str | None = None
    back_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """The request's three scores, 0 to 1.

    Attributes:
        latency: How tight its budget is against the fastest prediction; 0 without a budget.
        privacy: Its class, from public at 0 to restricted at 1.
        size: Its share of the edge model's window, or of what the edge can do in the budget, whichever is larger.
        missing: Names of scores for which there was no data, so 0.5 stands.
    """

    latency: float
    privacy: float
    size: float
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """One target's terms, 0 to 1, and what they add up to.

    Attributes:
        missing: Names of terms for which there was no data, so 0.5 stands.
        deadline: The probability that it answers inside the budget; 1 without one.
        exposure: How far the request's class stays below its clearance; 1 on this device.
        fit: One less the share of its window, or of what it can do in the budget, that the request takes.
        cost: One less its share of the dearest eligible target's price for this request.
        energy: One less its share of the most energy that an eligible target would use for this request.
        quality: As the policy declares it.
        preferred: Sum of the weights of the `prefer` rules that matched.
        score: The weighted sum plus `preferred`.
    """

    deadline: float
    exposure: float
    fit: float
    cost: float
    energy: float
    quality: float
    preferred: float
    score: float
    missing: tuple[str, ...] = ()


class Reason(StrEnum):
    """Why the first of the eligible targets is the first."""

    ONLY_ELIGIBLE = "only-eligible"
    HIGHEST_SCORE = "highest-score"
    DECLARED_ORDER = "declared-order"
    PREFERRED = "preferred"
    BUDGET_UNLIKELY = "budget-unlikely"
    NONE_ELIGIBLE = "none-eligible"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision.

    Attributes:
        eligible: In order of preference; every attempt draws from it and from nothing else.
        excluded: Target to reason.
        terms: Of the eligible targets.
        weights: Term to weight, as they were applied; they add up to 1.
        reason: One of `Reason`, for the response header; `preferred` is followed by `:` and the rule's id.
        rules: Ids of the rules whose `when` matched, in policy order.
        notes: What could not be evaluated and was therefore taken in the restrictive sense.
        policy_digest: sha256 of the policy, hex.
        digest: Hash of the inputs: same inputs, same digest, same verdict.
    """

    eligible: tuple[Eligible, ...]
    excluded: Mapping[str, Exclusion]
    scores: Scores
    terms: Mapping[str, Terms]
    weights: Mapping[str, float]
    label: Label
    reason: str
    rules: tuple[str, ...]
    notes: tuple[str, ...]
    policy_digest: str
    digest: str

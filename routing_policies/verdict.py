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
    """Why a target may not answer; each kind has its own error when no target is left."""

    NOT_CONFIGURED = "not_configured"
    CLEARANCE = "clearance"
    TAG = "tag"
    REGION = "region"
    CONSTRAINT = "constraint"
    MODEL = "model"
    CAPABILITY = "capability"
    WINDOW = "window"
    DOWN = "down"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why one target may not answer.

    Attributes:
        rule: The constraint's id where one decided.
        detail: One clause for a person, without any content of the request.
    """

    kind: ExclusionKind
    detail: str
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """The request's three scores, 0 to 1."""

    latency: float
    privacy: float
    size: float


@dataclass(frozen=True, slots=True)
class Terms:
    """One target's terms, 0 to 1, and what they add up to.

    Attributes:
        missing: Names of terms for which there was no data, so 0.5 stands.
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision.

    Attributes:
        eligible: In order of preference; every attempt draws from it and from nothing else.
        excluded: Target to reason.
        reason: A short word for the response header, such as `highest-score` or `budget-unlikely`.
        rules: Ids of the rules that took part, in policy order.
        policy_digest: sha256 of the policy, hex.
        digest: Hash of the inputs: same inputs, same digest, same verdict.
    """

    eligible: tuple[Eligible, ...]
    excluded: Mapping[str, Exclusion]
    scores: Scores
    terms: Mapping[str, Terms]
    label: Label
    reason: str
    rules: tuple[str, ...]
    policy_digest: str
    digest: str

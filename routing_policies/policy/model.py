"""The policy document, as an operator writes it. What a field means stands in docs/policies.md.

Every field name and every word of a closed set is checked, so that a typo is a load error and never a rule that
silently does nothing. What crosses fields, such as a rule that names a target, is checked by the loader.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from inference_protocol import budgets
from inference_protocol.text_parts import UninspectableCause
from routing_policies.policy.examples import PolicyTest
from routing_policies.policy.parts import Amount, ClassWord, FindingTag, Id, Milliseconds, Part, Share, Text
from routing_policies.signals.label import DataClass

MAX_RULES = 200
MAX_TARGETS = 64


class Kind(StrEnum):
    """What a target is. Only `edge` runs on this device; whatever goes to another kind has left it."""

    EDGE = "edge"
    ONPREM = "onprem"
    CLOUD = "cloud"
    TIDEGATE = "tidegate"


class Late(StrEnum):
    """What happens to an answer that runs past its budget once content flows, or that is unlikely to make it."""

    FINISH = "finish"
    TRUNCATE = budgets.TRUNCATE
    REFUSE = "refuse"


class Defaults(Part):
    """What a request has that says nothing itself."""

    data_class: ClassWord = Field(default=DataClass.CONFIDENTIAL, alias="class")
    total_ms: Milliseconds | None = None
    ttft_ms: Milliseconds | None = None
    max_tokens: int = Field(default=512, ge=1, le=1 << 20)
    late: Late = Late.FINISH


class Findings(Part):
    """The class that each group of findings raises a request to."""

    pii: ClassWord = DataClass.CONFIDENTIAL
    phi: ClassWord = DataClass.RESTRICTED
    pci: ClassWord = DataClass.RESTRICTED
    secret: ClassWord = DataClass.RESTRICTED
    domain: ClassWord | None = None

    def by_tag(self) -> dict[str, DataClass]:
        """The class by tag; domains are among them only where they have one."""
        found = {"pii": self.pii, "phi": self.phi, "pci": self.pci, "secret": self.secret}
        return found if self.domain is None else {**found, "domain": self.domain}


class AnswerScanning(StrEnum):
    """What is done about identifiers and secrets in answers."""

    OFF = "off"
    LABEL = "label"
    MASK = "mask"
    STOP = "stop"


class Answers(Part):
    """What is looked for in answers, and what is done with it."""

    scan: AnswerScanning = AnswerScanning.OFF
    tags: tuple[FindingTag, ...] = Field(default=("pii", "phi", "pci", "secret"), min_length=1)


class Price(Part):
    """What `per` tokens cost."""

    input: Amount
    output: Amount
    per: int = Field(default=1_000_000, ge=1)
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")


class Power(Part):
    """What a target draws on this site while it works."""

    watts: Amount


class Target(Part):
    """What the operator promises about a target.

    Attributes:
        tags_allowed: Tags that data sent there may carry. Left out, it is every tag on the edge and none elsewhere.
        pseudonymize: Tags of findings that are replaced by tokens in what is sent there, and restored in the answer.
    """

    kind: Kind
    clearance: ClassWord
    region: Text = ""
    quality: Share | None = None
    tags_allowed: tuple[Text, ...] | None = None
    pseudonymize: tuple[FindingTag, ...] = ()
    retention_days: int | None = Field(default=None, ge=0)
    price: Price | None = None
    power: Power | None = None

    @property
    def on_device(self) -> bool:
        """Whether what is sent there stays on this device."""
        return self.kind is Kind.EDGE

    def allows_tag(self, tag: str) -> bool:
        """Whether data that carries a tag may go there."""
        return self.on_device if self.tags_allowed is None else tag in self.tags_allowed


class Constraint(Part):
    """A hard rule: where `when` holds, the targets in `deny` are out, or those for which `require` does not hold."""

    id: Id
    when: str = "true"
    deny: tuple[str, ...] | None = Field(default=None, min_length=1)
    require: str | None = None

    @model_validator(mode="after")
    def _one_effect(self) -> Self:
        if (self.deny is None) == (self.require is None):
            raise ValueError("needs exactly one of `deny` and `require`")
        return self


class Preference(Part):
    """A soft rule: where `when` holds, `weight` is added to a target's score."""

    id: Id
    when: str = "true"
    target: str
    weight: float = Field(ge=-1, le=1)


class Weights(Part):
    """How much each term counts. They are divided by their sum."""

    deadline: Amount = 0.0
    exposure: Amount = 0.0
    fit: Amount = 0.0
    cost: Amount = 0.0
    energy: Amount = 0.0
    quality: Amount = 0.0

    @model_validator(mode="after")
    def _something_counts(self) -> Self:
        if not any(self.normalised().values()):
            raise ValueError("needs at least one weight above 0")
        return self

    def normalised(self) -> dict[str, float]:
        """The weights with sum 1, by term; all 0 where all are."""
        raw = self.model_dump()
        total = sum(raw.values())
        return {term: weight / total if total else 0.0 for term, weight in raw.items()}


class On(Part):
    """What happens where the policy cannot be followed. Each has the one safe answer, stated so that it can be read."""

    no_eligible: Literal["refuse"] = "refuse"
    policy_error: Literal["most_restrictive"] = "most_restrictive"


class Invariant(Part):
    """What no eligible target may ever break. Until it is proved at load, it is enforced like a constraint."""

    id: Id
    when: str = "true"
    require: str


class Policy(Part):
    """The whole document."""

    api_version: Literal["tidegate/v1"] = Field(alias="apiVersion")
    name: Id
    defaults: Defaults = Defaults()
    uninspected: Mapping[UninspectableCause, ClassWord] = {}
    findings: Findings = Findings()
    answers: Answers = Answers()
    targets: Mapping[Id, Target] = Field(min_length=1, max_length=MAX_TARGETS)
    constraints: tuple[Constraint, ...] = Field(default=(), max_length=MAX_RULES)
    prefer: tuple[Preference, ...] = Field(default=(), max_length=MAX_RULES)
    weights: Weights = Weights(deadline=0.4, exposure=0.2, fit=0.1, quality=0.2, cost=0.1)
    on: On = On()
    invariants: tuple[Invariant, ...] = Field(default=(), max_length=MAX_RULES)
    tests: tuple[PolicyTest, ...] = Field(default=(), max_length=MAX_RULES)

"""The policy document, as an operator writes it. What a field means stands in docs/policies.md.

Every field name and every word of a closed set is checked, so that a typo is a load error and never a rule that
silently does nothing. What crosses fields, such as a rule that names a target, is checked by the loader.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints, model_validator

from inference_protocol import budgets
from inference_protocol.request import Task
from inference_protocol.text_parts import UninspectableCause
from routing_policies.signals.hints import EffectiveType, Network
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Connectivity, Health

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


def _read_class(value: object) -> DataClass:
    if isinstance(value, DataClass):
        return value
    if not isinstance(value, str):
        raise ValueError(f"must be one of {', '.join(c.word for c in DataClass)}")
    return DataClass.from_word(value)


ClassWord = Annotated[DataClass, BeforeValidator(_read_class), PlainSerializer(lambda c: c.word, return_type=str)]
Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=64)]
Text = Annotated[str, StringConstraints(max_length=200)]
FindingTag = Literal["pii", "phi", "pci", "secret"]
Milliseconds = Annotated[float, Field(gt=0, le=86_400_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Part(BaseModel):
    """A part of the document: frozen, exact types, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


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

    def by_tag(self) -> dict[str, DataClass]:
        """The class by tag."""
        return {"pii": self.pii, "phi": self.phi, "pci": self.pci, "secret": self.secret}


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


class GivenLabel(Part):
    """The label of a test's request: what it declares, and what is found in it."""

    data_class: ClassWord | None = Field(default=None, alias="class")
    tags: tuple[Text, ...] = ()
    findings: tuple[FindingTag, ...] = ()
    causes: tuple[UninspectableCause, ...] = ()


class GivenRequest(Part):
    """What else is so of a test's request."""

    task: Task = Task.CHAT
    model: Text = "auto"
    stream: bool = True
    tools: bool = False
    json_schema: bool = Field(default=False, alias="schema")
    images: bool = False
    audio: bool = False
    output_cap: int | None = Field(default=None, ge=1)
    body_bytes: int | None = Field(default=None, ge=0)


class GivenTenant(Part):
    """Who calls in a test."""

    id: Text = "test"
    roles: tuple[Text, ...] = ()


class GivenClient(Part):
    """The hints of a test's caller."""

    save_data: bool = False
    network: Network = Network.UNKNOWN
    metered: bool = False
    effective_type: EffectiveType = EffectiveType.UNKNOWN
    battery_percent: float | None = Field(default=None, ge=0, le=100)
    charging: bool = False


class GivenDevice(Part):
    """The state of this device in a test."""

    connectivity: Connectivity = Connectivity.ONLINE
    free_memory_mb: Amount | None = None


class GivenTarget(Part):
    """The state of a target in a test."""

    health: Health = Health.UP
    window: int | None = Field(default=None, gt=0)
    waiting: int | None = Field(default=None, ge=0)
    ttft_ms: Milliseconds | None = None
    total_ms: Milliseconds | None = None


class Given(Part):
    """A test's request and what is so at the time."""

    label: GivenLabel = GivenLabel()
    total_ms: Milliseconds | None = None
    ttft_ms: Milliseconds | None = None
    tokens: int = Field(default=100, ge=0)
    request: GivenRequest = GivenRequest()
    tenant: GivenTenant = GivenTenant()
    residency: Text = ""
    client: GivenClient = GivenClient()
    device: GivenDevice = GivenDevice()
    targets: Mapping[str, GivenTarget] = {}


class Expect(Part):
    """What a test expects of the verdict. A field left out is not looked at."""

    target: str | None = None
    eligible: tuple[str, ...] | None = None
    rule: str | None = None


class PolicyTest(Part):
    """One example of what the policy decides; the start refuses a policy whose own example fails."""

    name: Text
    given: Given = Given()
    expect: Expect


class Policy(Part):
    """The whole document."""

    api_version: Literal["tidegate/v1"] = Field(alias="apiVersion")
    name: Id
    defaults: Defaults = Defaults()
    uninspected: Mapping[UninspectableCause, ClassWord] = {}
    findings: Findings = Findings()
    targets: Mapping[Id, Target] = Field(min_length=1, max_length=MAX_TARGETS)
    constraints: tuple[Constraint, ...] = Field(default=(), max_length=MAX_RULES)
    prefer: tuple[Preference, ...] = Field(default=(), max_length=MAX_RULES)
    weights: Weights = Weights(deadline=0.4, exposure=0.2, fit=0.1, quality=0.2, cost=0.1)
    on: On = On()
    invariants: tuple[Invariant, ...] = Field(default=(), max_length=MAX_RULES)
    tests: tuple[PolicyTest, ...] = Field(default=(), max_length=MAX_RULES)

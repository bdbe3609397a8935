"""The privacy label: components kept apart, their join derived, so that a record can say which one raised it.

Any component may raise the label and none can lower it: the class is a maximum, the tags are a union.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, Self

from inference_protocol import headers
from inference_protocol.errors import InvalidHeader
from inference_protocol.text_parts import UninspectableCause

MAX_DECLARED_TAGS = 32
SCANNER = "tidegate-scanner"
"""The detector whose findings can be replaced by tokens: it reads what was made once more."""
NOTED = frozenset({"domain"})
"""Tags of findings that are counted and raise nothing, unless a policy gives them a class."""
_TAG = re.compile(r"[a-z0-9_-]{1,32}")
# Text that a model reads as text. Elsewhere a value may be a key, a name, an address: a token would change its meaning.
_SPOKEN = re.compile(
    r"messages\[\d+\]\.(?:content(?:\[\d+\]\.text)?|reasoning(?:_content)?|refusal|"
    r"(?:tool_calls\[\d+\]\.function|function_call)\.arguments)|prompt(?:\[\d+\])?"
)


class DataClass(IntEnum):
    """How far data may travel, lowest first."""

    PUBLIC = 0
    INTERNAL = 1
    CONFIDENTIAL = 2
    RESTRICTED = 3

    @property
    def word(self) -> str:
        """The name as it stands in headers, policies and records."""
        return self.name.lower()

    @classmethod
    def from_word(cls, word: str) -> DataClass:
        """Read a class name.

        Raises:
            ValueError: It is none of the four.
        """
        try:
            return cls[word.strip().upper()]
        except KeyError:
            raise ValueError(f"{word!r} is not one of {', '.join(c.word for c in cls)}") from None


@dataclass(frozen=True, slots=True)
class Component:
    """What one source says of a request: a class, or nothing (`None`), and tags."""

    level: DataClass | None = None
    tags: frozenset[str] = frozenset()

    @classmethod
    def join(cls, components: Iterable[Self]) -> Self:
        """Return the highest class that any of them says, with all their tags."""
        held = tuple(components)
        level = max((c.level for c in held if c.level is not None), default=None)
        return cls(level, frozenset().union(*(c.tags for c in held)))


NOTHING = Component()


class Finding(NamedTuple):
    """Something a detector recognised. Never the value itself.

    Attributes:
        kind: What it is, such as `card`, `email`, `aws_key`.
        tag: The group it belongs to: `pii`, `phi`, `pci`, `secret`, `domain`.
        path: The text part it stands in.
        start: First character of it in the part's text.
        end: One past its last character.
        detector: Who recognised it.
    """

    kind: str
    tag: str
    path: str
    start: int
    end: int
    detector: str


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What detectors say of one request.

    Attributes:
        causes: Why some of it could not be inspected: by its nature, or because a detector failed. An empty `findings`
            means clean only where this is empty too.
    """

    findings: tuple[Finding, ...] = ()
    causes: frozenset[UninspectableCause] = frozenset()


@dataclass(frozen=True, slots=True)
class LabelRules:
    """The part of a policy that turns what was seen into classes.

    Attributes:
        default: The class of a request of which nobody says anything.
        uninspected: Class by cause; one that is not listed is `confidential`, a failed detector `restricted`.
        findings: Class by tag of a finding; one that is not listed is `confidential`, or nothing where it is `NOTED`.
    """

    default: DataClass
    uninspected: Mapping[UninspectableCause, DataClass] = field(default_factory=dict)
    findings: Mapping[str, DataClass] = field(default_factory=dict)

    def with_causes(self, uninspected: Mapping[UninspectableCause, DataClass]) -> LabelRules:
        """Return the rules with other classes for some causes, as a caller's key may carry them."""
        return replace(self, uninspected={**self.uninspected, **uninspected}) if uninspected else self

    def of_cause(self, cause: UninspectableCause) -> DataClass:
        """Return the class of what could not be inspected for this reason."""
        failed = cause is UninspectableCause.DETECTOR_ERROR
        return self.uninspected.get(cause, DataClass.RESTRICTED if failed else DataClass.CONFIDENTIAL)

    def raising(self, tags: Iterable[str]) -> frozenset[str]:
        """Return those tags of findings that say something of a request."""
        return frozenset(tag for tag in tags if tag in self.findings or tag not in NOTED)

    def of_tag(self, tag: str) -> DataClass:
        """Return the class of a finding with this tag."""
        return self.findings.get(tag, DataClass.PUBLIC if tag in NOTED else DataClass.CONFIDENTIAL)


@dataclass(frozen=True, slots=True)
class Label:
    """The label of one request.

    Attributes:
        declared: From the label headers of the request.
        key: From the caller's key or the identity's default.
        taint: From an earlier labelled turn of this conversation.
        findings: From detectors; the only component a pseudonymising transform may lower.
        uninspected: From parts nobody could read.
        default: What a request with none of these has.
        counts: Kind of finding to how many there are.
        causes: Why parts were not inspected.
        fixed: Tags of findings that stand where no token can take their place.
        level: The join: the highest class that any component says, or the default where none says anything.
        tags: Every tag that any component carries.
    """

    default: DataClass
    declared: Component = NOTHING
    key: Component = NOTHING
    taint: Component = NOTHING
    findings: Component = NOTHING
    uninspected: Component = NOTHING
    counts: Mapping[str, int] = field(default_factory=dict)
    causes: frozenset[UninspectableCause] = frozenset()
    fixed: frozenset[str] = frozenset()
    level: DataClass = field(init=False, compare=False)
    tags: frozenset[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Join once what every rule, term and target asks for."""
        said = [component.level for component in self.components if component.level is not None]
        object.__setattr__(self, "level", max(said) if said else self.default)
        object.__setattr__(self, "tags", frozenset().union(*[component.tags for component in self.components]))

    @property
    def components(self) -> tuple[Component, ...]:
        """All five, in the order the documentation names them."""
        return (self.declared, self.key, self.taint, self.findings, self.uninspected)

    def without_findings(self, tags: Collection[str], rules: LabelRules) -> Label:
        """Return the label with findings of these tags replaced, where they can be. Nothing else moves."""
        left = self.findings.tags.difference(tags) | self.fixed
        return replace(self, findings=Component(max(map(rules.of_tag, left), default=None), left))

    @property
    def kept_for_later_turns(self) -> Component:
        """What later turns of the conversation inherit: all that a scan of them could not find again."""
        return Component.join((self.declared, self.key, self.taint))


def is_spoken(path: str) -> bool:
    """Whether a part of a request is text that is said, so that a token can take a value's place in it."""
    return _SPOKEN.fullmatch(path) is not None


def parse_label_headers(fields: Mapping[str, str]) -> Component:
    """Read what the caller declares of its request.

    Args:
        fields: By lower-case name.

    Raises:
        InvalidHeader: The class is none of the four, or a tag is not one.
    """
    word = fields.get(headers.DATA_CLASS)
    tags = fields.get(headers.DATA_TAGS)
    return Component(
        level=None if word is None else _declared_class(word),
        tags=frozenset() if tags is None else _declared_tags(tags),
    )


def label_of(rules: LabelRules, *, declared: Component, key: Component, taint: Component, scan: ScanResult) -> Label:
    """Put the label of a request together."""
    tags = rules.raising(finding.tag for finding in scan.findings)
    return Label(
        default=rules.default,
        declared=declared,
        key=key,
        taint=taint,
        findings=Component(max(map(rules.of_tag, tags), default=None), tags),
        uninspected=Component(max(map(rules.of_cause, scan.causes), default=None)),
        counts=Counter(finding.kind for finding in scan.findings),
        causes=scan.causes,
        fixed=tags.intersection(f.tag for f in scan.findings if f.detector != SCANNER or not is_spoken(f.path)),
    )


def _declared_class(word: str) -> DataClass:
    try:
        return DataClass.from_word(word)
    except ValueError:
        allowed = ", ".join(level.word for level in DataClass)
        raise InvalidHeader(f"`{headers.DATA_CLASS}` must be one of {allowed}.", param=headers.DATA_CLASS) from None


def can_be_declared(tag: str) -> bool:
    """Whether a caller could declare this tag."""
    return _TAG.fullmatch(tag) is not None


def _declared_tags(value: str) -> frozenset[str]:
    tags = [tag.strip() for tag in value.split(",")]
    if len(tags) > MAX_DECLARED_TAGS or not all(map(_TAG.fullmatch, tags)):
        raise InvalidHeader(
            f"`{headers.DATA_TAGS}` must be 1 to {MAX_DECLARED_TAGS} tags with commas between them, each of 1 to 32 "
            "lower-case letters, digits, `_` or `-`.",
            param=headers.DATA_TAGS,
        )
    return frozenset(tags)

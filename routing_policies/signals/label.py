"""The privacy label: components kept apart, their join derived, so that a record can say which one raised it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from inference_protocol.text_parts import UninspectableCause


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


NOTHING = Component()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a detector recognised. Never the value itself.

    Attributes:
        kind: What it is, such as `card`, `email`, `aws_key`.
        tag: The group it belongs to: `pii`, `phi`, `pci`, `secret`.
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
    """

    default: DataClass
    declared: Component = NOTHING
    key: Component = NOTHING
    taint: Component = NOTHING
    findings: Component = NOTHING
    uninspected: Component = NOTHING
    counts: Mapping[str, int] = field(default_factory=dict)
    causes: frozenset[UninspectableCause] = frozenset()

    @property
    def components(self) -> tuple[Component, ...]:
        """All five, in the order the documentation names them."""
        return (self.declared, self.key, self.taint, self.findings, self.uninspected)

    @property
    def level(self) -> DataClass:
        """The join: the highest any component says, or the default where none says anything."""
        return max((c.level for c in self.components if c.level is not None), default=self.default)

    @property
    def tags(self) -> frozenset[str]:
        """Every tag that any component carries."""
        return frozenset().union(*(c.tags for c in self.components))

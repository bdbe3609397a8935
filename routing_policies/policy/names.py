"""The names that a condition may use: their types, and where their values come from.

One table serves the load-time checker, the evaluation and the documentation, so that they cannot drift apart.

Hard rules see what the policy, the identity and the measured request settle. What a caller can leave out, or what
changes by itself, is for preferences only: else who may answer would hang on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from inference_protocol.request import Task
from inference_protocol.text_parts import UninspectableCause
from routing_policies.policy.model import Kind, Target
from routing_policies.signals.hints import EffectiveType, Network
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Connectivity, Snapshot, TargetSnapshot
from routing_policies.view import RequestView


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a value in a condition.

    Attributes:
        word: For a person.
        item: Of a list: the type of its items.
        words: Of text: all that it can be, or `None` where that is open.
    """

    word: str
    item: ValueType | None = None
    words: tuple[str, ...] | None = None


BOOLEAN = ValueType("true or false")
NUMBER = ValueType("a number")
TOKENS = ValueType("a number of tokens")
COUNT = ValueType("a number of items")
LEVEL = ValueType("a class")
TEXT = ValueType("text")
TEXTS = ValueType("a list of text", item=TEXT)


def one_of(words: Iterable[str]) -> ValueType:
    """Text out of a closed set."""
    return ValueType("text", words=tuple(words))


CONSTANTS: Mapping[str, DataClass] = {level.name: level for level in DataClass}


class Scope(Enum):
    """Where a condition stands, which settles what it sees."""

    WHEN = "`when` of a constraint or an invariant"
    REQUIRE = "`require`"
    PREFER = "`when` of a preference"


@dataclass(frozen=True, slots=True)
class RequestName:
    """A name that has a value for every request.

    Attributes:
        name: Dotted, as conditions write it.
        read: From the view of a request and the snapshot of the decision to the value.
        meaning: For the documentation.
        soft: Whether only preferences see it.
    """

    name: str
    type: ValueType
    read: Callable[[RequestView, Snapshot], Any]
    meaning: str
    soft: bool = False


@dataclass(frozen=True, slots=True)
class TargetName:
    """A name that has a value for every target, known once the policy is loaded."""

    name: str
    type: ValueType
    read: Callable[[str, Target], Any]
    meaning: str


@dataclass(frozen=True, slots=True)
class StateName:
    """A name that has a value for every target and changes by itself: only preferences see it.

    Attributes:
        read: From the target's snapshot, or `None` where the settings do not name the target.
    """

    name: str
    type: ValueType
    read: Callable[[TargetSnapshot | None], Any]
    meaning: str


def _or_infinite(number: float | None) -> float:
    return math.inf if number is None else number


REQUEST_NAMES: tuple[RequestName, ...] = (
    RequestName("label.level", LEVEL, lambda v, _: int(v.label.level), "the class of the request"),
    RequestName("label.tags", TEXTS, lambda v, _: sorted(v.label.tags), "its tags, from headers and findings"),
    RequestName(
        "label.causes",
        ValueType("a list of text", item=one_of(UninspectableCause)),
        lambda v, _: sorted(v.label.causes),
        "why parts of it could not be inspected",
    ),
    RequestName(
        "deadline.total_ms",
        NUMBER,
        lambda v, s: _or_infinite(v.deadline.remaining_total_ms(s.now)),
        "milliseconds left for the whole answer; infinite without a budget",
    ),
    RequestName(
        "deadline.ttft_ms",
        NUMBER,
        lambda v, s: _or_infinite(v.deadline.remaining_first_content_ms(s.now)),
        "milliseconds left until the first content; infinite without a budget",
    ),
    RequestName("size.tokens", TOKENS, lambda v, _: v.size.tokens.likely, "input tokens"),
    RequestName("size.body_bytes", NUMBER, lambda v, _: v.size.body_bytes, "bytes of the body"),
    RequestName("request.task", one_of(Task), lambda v, _: v.task.value, "what is asked for"),
    RequestName("request.model", TEXT, lambda v, _: v.model, "the public model name"),
    RequestName("request.stream", BOOLEAN, lambda v, _: v.stream, "whether the answer is streamed"),
    RequestName("request.tools", BOOLEAN, lambda v, _: v.needs.tools, "whether it brings tools"),
    RequestName("request.schema", BOOLEAN, lambda v, _: v.needs.schema, "whether it asks for a JSON schema"),
    RequestName("request.images", BOOLEAN, lambda v, _: v.needs.images, "whether it holds images"),
    RequestName("request.audio", BOOLEAN, lambda v, _: v.needs.audio, "whether it holds audio"),
    RequestName("request.output_cap", NUMBER, lambda v, _: v.output_cap, "most output tokens it may take"),
    RequestName("tenant.id", TEXT, lambda v, _: v.tenant.id, "who calls"),
    RequestName("tenant.roles", TEXTS, lambda v, _: sorted(v.tenant.roles), "the caller's roles"),
    RequestName("tenant.residency", TEXT, lambda v, _: v.tenant.residency, "where the caller's data must stay"),
    RequestName("client.save_data", BOOLEAN, lambda v, _: v.hints.save_data, "whether it asks to save data", soft=True),
    RequestName(
        "client.network", one_of(Network), lambda v, _: v.hints.network.value, "what its device is linked by", soft=True
    ),
    RequestName(
        "client.metered", BOOLEAN, lambda v, _: v.hints.metered, "whether that link costs by volume", soft=True
    ),
    RequestName(
        "client.effective_type",
        one_of(EffectiveType),
        lambda v, _: v.hints.effective_type.value,
        "how good that link is, as a browser measures it",
        soft=True,
    ),
    RequestName(
        "client.battery_percent",
        NUMBER,
        lambda v, _: _or_infinite(v.hints.battery_percent),
        "what its battery holds, 0 to 100; infinite where it does not tell",
        soft=True,
    ),
    RequestName("client.charging", BOOLEAN, lambda v, _: v.hints.charging, "whether it is on mains", soft=True),
    RequestName(
        "device.connectivity",
        one_of(Connectivity),
        lambda _, s: s.device.connectivity.value,
        "how this device stands to the world outside",
        soft=True,
    ),
    RequestName(
        "device.free_memory_mb",
        NUMBER,
        lambda _, s: _or_infinite(s.device.free_memory_mb),
        "megabytes of memory left on this device; infinite where nobody can say",
        soft=True,
    ),
)

TARGET_NAMES: tuple[TargetName, ...] = (
    TargetName("target.name", TEXT, lambda name, _: name, "the target's name in the policy"),
    TargetName("target.kind", one_of(Kind), lambda _, t: t.kind.value, "what it is"),
    TargetName("target.clearance", LEVEL, lambda _, t: int(t.clearance), "the highest class that may go there"),
    TargetName("target.region", TEXT, lambda _, t: t.region, "where it stands; empty where the policy does not say"),
    TargetName(
        "target.retention_days",
        NUMBER,
        lambda _, t: _or_infinite(t.retention_days),
        "how long it keeps what it is sent; infinite where the policy does not say",
    ),
)


STATE_NAMES: tuple[StateName, ...] = (
    StateName(
        "target.waiting",
        NUMBER,
        lambda t: (t.waiting if t is not None else None) or 0,
        "requests that wait there for a free place; 0 where it does not tell",
    ),
)

SOFT = frozenset({*(known.name for known in REQUEST_NAMES if known.soft), *(known.name for known in STATE_NAMES)})
"""What only preferences see."""


def schema(target_names: Iterable[str]) -> dict[str, ValueType]:
    """Every dotted name with its type; `target.name` can be only a target of this policy."""
    found = {known.name: known.type for known in REQUEST_NAMES}
    found |= {known.name: known.type for known in TARGET_NAMES}
    found |= {known.name: known.type for known in STATE_NAMES}
    found["target.name"] = one_of(target_names)
    return found

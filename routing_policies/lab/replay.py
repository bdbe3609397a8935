"""From a decision record back to what was decided on: no content, and enough to decide again.

A candidate policy may label otherwise, so the label is joined anew from what was declared, found and not inspected, and
the default output cap is the candidate's. Budgets stay as they were, also those that the policy of the time gave.

What an older record does not hold is assumed, in the way that lets the most targets answer, and named.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import orjson
from msgspec import DecodeError, ValidationError
from msgspec.json import Decoder

from inference_protocol.request import GENERATES, Needs, Task
from inference_protocol.text_parts import UninspectableCause
from routing_policies.lab.recorded import VERSION, RecordedDecision, RecordedOutcome, record_reader
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.hints import EffectiveType, Hints, Network
from routing_policies.signals.label import NOTED, NOTHING, Component, DataClass, Label
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.snapshot import Capabilities, Device, Health, Snapshot, TargetSnapshot
from routing_policies.verdict import ExclusionKind
from routing_policies.view import RequestView, Tenant

ABLE = Capabilities(
    "any",
    tasks=frozenset(Task),
    tools=True,
    json_schema=True,
    images=True,
    audio=True,
    logprobs=True,
    max_n=1 << 16,
)

_UNTOLD = Device()
_NOTHING = b"{}"
_TASKS: Mapping[str, Task] = {task.value: task for task in Task}

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class State(NamedTuple):
    """How a target stood: what of its snapshot many records share."""

    health: Health
    can: Capabilities
    waiting: int | None = None
    back_in_s: float | None = None


States = Mapping[str, State]


class UnreadableRecord(ValueError):
    """A record is not a decision's, or is damaged."""


class Replayed(NamedTuple):
    """What a decision was made on, and how it went.

    Attributes:
        states: Target to how it stood; the same object for the same states.
        eligible: As recorded, best first.
        assumed: What the record does not hold.
    """

    view: RequestView
    snapshot: Snapshot
    states: States
    eligible: tuple[str, ...]
    assumed: tuple[str, ...]


@dataclass(slots=True)
class Replayer:
    """Reads records for one policy. Parts that are alike become one object, which is quicker to make and to compare."""

    policy: LoadedPolicy
    _reader: Decoder[RecordedDecision | RecordedOutcome] = field(default_factory=record_reader)
    _seen: dict[tuple[Any, Hashable], Any] = field(default_factory=dict)

    def replay(self, line: bytes) -> Replayed | None:
        """Read one line of a log of records; `None` where it is no decision, or was left unfinished by a dying process.

        Raises:
            UnreadableRecord: A field is missing that every version has, or is not what it was; or it is of a newer one.
        """
        try:
            record = self._reader.decode(line)
            if not isinstance(record, RecordedDecision):
                return None
            if record.version > VERSION:
                raise UnreadableRecord(f"it is of version {record.version}, and this Tidegate reads up to {VERSION}")
            return self._replay(record)
        except ValidationError as exc:
            raise UnreadableRecord(str(exc)) from None
        except DecodeError:
            return None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
            raise UnreadableRecord(f"{type(exc).__name__}: {exc}") from None

    def _replay(self, record: RecordedDecision) -> Replayed:
        size, budget, predictions = record.size, record.budget, record.predictions
        states = self._states(record)
        tenant = (record.tenant, record.residency, bytes(record.roles))
        view = RequestView(
            task=_TASKS[record.task],
            model=record.model,
            stream=record.stream,
            needs=self._same(bytes(record.needs), _needs),
            label=self._same(bytes(record.label), self._label),
            deadline=Deadline(0.0, _seconds(budget.total_ms), _seconds(budget.ttft_ms)),
            size=Size(TokenInterval(*size.tokens), size.body_bytes, size.parts),
            output_cap=size.output_cap if size.cap_is_own else self.policy.policy.defaults.max_tokens,
            cap_is_own=size.cap_is_own,
            tenant=self._same(tenant, _tenant),
            hints=self._same(bytes(record.client), _hints),
        )
        targets = {
            name: TargetSnapshot(name, health, can, None, predictions.get(name), back_in_s, waiting)
            for name, (health, can, waiting, back_in_s) in states.items()
        }
        return Replayed(
            view=view,
            snapshot=Snapshot(targets, record.decided_after_ms / 1000.0, record.seed, record.device or _UNTOLD),
            states=states,
            eligible=tuple([each.target for each in record.eligible]),
            assumed=() if record.device is not None else _lacking(record),
        )

    def _states(self, record: RecordedDecision) -> States:
        known = bytes(record.targets)
        if known:
            return self._same(known, _states)
        excluded = {name: exclusion["kind"] for name, exclusion in orjson.loads(bytes(record.excluded)).items()}
        return self._same(tuple((name, excluded.get(name)) for name in record.predictions), _assumed_states)

    def _label(self, raw: bytes) -> Label:
        value = orjson.loads(raw)
        own = {
            UninspectableCause(cause): DataClass.from_word(word) for cause, word in value.get("key_causes", {}).items()
        }
        rules = self.policy.label_rules.with_causes(own)
        parts = {name: _component(part) for name, part in value["components"].items()}
        causes = frozenset(map(UninspectableCause, value["uninspected"]))
        # What was only noted stands among the counts alone, by a kind that is named like its tag.
        found = rules.raising({*parts.get("findings", NOTHING).tags, *NOTED.intersection(value["findings"])})
        return Label(
            rules.default,
            declared=parts.get("declared", NOTHING),
            key=parts.get("key", NOTHING),
            taint=parts.get("taint", NOTHING),
            findings=Component(max(map(rules.of_tag, found), default=None), found),
            uninspected=Component(max(map(rules.of_cause, causes), default=None)),
            counts=value["findings"],
            causes=causes,
            fixed=frozenset(value.get("fixed", ())),
        )

    def _same(self, key: K, make: Callable[[K], T]) -> T:
        """What was made of the same before, so that parts that are alike are one object."""
        found = self._seen.get((make, key))
        if found is None:
            found = self._seen[make, key] = make(key)
        made: T = found
        return made


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000.0


def _lacking(record: RecordedDecision) -> tuple[str, ...]:
    """What the first records did not hold, and this one does not."""
    later = {
        "client": bytes(record.client),
        "device": record.device,
        "needs": bytes(record.needs),
        "residency": record.residency is not None,
        "targets": bytes(record.targets),
    }
    return tuple(name for name, value in later.items() if not value)


def _needs(raw: bytes) -> Needs:
    value = orjson.loads(raw or _NOTHING)
    return Needs(**{**value, "parameters": tuple(value.get("parameters", ()))})


def _tenant(value: tuple[str, str | None, bytes]) -> Tenant:
    return Tenant(value[0], frozenset(orjson.loads(value[2])), value[1] or "")


def _hints(raw: bytes) -> Hints:
    told = orjson.loads(raw or _NOTHING)
    for name, kind in (("network", Network), ("effective_type", EffectiveType), ("unreadable", tuple)):
        if name in told:
            told[name] = kind(told[name])
    return Hints(**told)


def _component(part: Mapping[str, Any]) -> Component:
    level = part["class"]
    return Component(None if level is None else DataClass.from_word(level), frozenset(part["tags"]))


def _states(raw: bytes) -> States:
    return {
        name: State(Health(target["health"]), _capabilities(target), target.get("waiting"), target.get("back_in_s"))
        for name, target in orjson.loads(raw).items()
    }


def _capabilities(target: Mapping[str, Any]) -> Capabilities:
    return Capabilities(
        target["served_model"],
        window=target["window"],
        tasks=frozenset(map(Task, target.get("tasks", GENERATES))),
        max_n=target["max_n"],
        parameters=frozenset(target["parameters"]),
        **dict.fromkeys(target["can"], True),
    )


def _assumed_states(exclusions: tuple[tuple[str, str | None], ...]) -> States:
    """What can be told from why a target was excluded."""
    return {
        name: State(
            Health.DOWN if kind == ExclusionKind.DOWN else Health.UP,
            Capabilities(None) if kind == ExclusionKind.MODEL else ABLE,
        )
        for name, kind in exclusions
    }

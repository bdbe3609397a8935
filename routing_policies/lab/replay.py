"""From a decision record back to what was decided on: no content, and enough to decide again.

A candidate policy may label otherwise, so the label is joined anew from what was declared, found and not inspected, and
the default output cap is the candidate's. Budgets stay as they were, also those that the policy of the time gave.

What an older record does not hold is assumed, in the way that lets the most targets answer, and named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import orjson

from inference_protocol.request import Needs, Task
from inference_protocol.text_parts import UninspectableCause
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.hints import EffectiveType, Hints, Network
from routing_policies.signals.label import NOTHING, Component, DataClass, Label
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.snapshot import Capabilities, Connectivity, Device, Health, Prediction, Snapshot, TargetSnapshot
from routing_policies.verdict import ExclusionKind
from routing_policies.view import RequestView, Tenant

ABLE = Capabilities("any", tools=True, json_schema=True, images=True, audio=True, logprobs=True, max_n=1 << 16)

_LATER = frozenset({"needs", "residency", "targets", "client", "device"})
"""What the first records did not hold."""

_UNTOLD = Device()
_CONNECTIVITY: Mapping[str, Connectivity] = {state.value: state for state in Connectivity}
_TASKS: Mapping[str, Task] = {task.value: task for task in Task}

T = TypeVar("T")
States = Mapping[str, tuple[Health, Capabilities, int | None]]


class UnreadableRecord(ValueError):
    """A record is not a decision's, or is damaged."""


class Replayed(NamedTuple):
    """What a decision was made on, and how it went.

    Attributes:
        states: Target to its health, its abilities and how many wait there; the same object for the same states.
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
    _seen: dict[tuple[str, bytes], Any] = field(default_factory=dict)

    def replay(self, record: Mapping[str, Any]) -> Replayed:
        """Read one decision record.

        Raises:
            UnreadableRecord: It is none, or a field is missing that every version has.
        """
        try:
            return self._replay(record)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
            raise UnreadableRecord(f"{type(exc).__name__}: {exc}") from None

    def _replay(self, record: Mapping[str, Any]) -> Replayed:
        size, budget, predictions = record["size"], record["budget"], record["predictions"]
        states, own_cap = self._states(record), size.get("cap_is_own", True)
        tenant = (record["tenant"], record.get("roles", ()), record.get("residency", ""))
        view = RequestView(
            task=_TASKS[record["task"]],
            model=record["model"],
            stream=record["stream"],
            needs=self._same("needs", record.get("needs", {}), _needs),
            label=self._same("label", record["label"], self._label),
            deadline=Deadline(0.0, _seconds(budget["total_ms"]), _seconds(budget["ttft_ms"])),
            size=Size(TokenInterval(*size["tokens"]), size["body_bytes"], size["parts"]),
            output_cap=size["output_cap"] if own_cap else self.policy.policy.defaults.max_tokens,
            cap_is_own=own_cap,
            tenant=self._same("tenant", tenant, _tenant),
            hints=self._same("client", record.get("client", {}), _hints),
        )
        targets = {
            name: TargetSnapshot(name, health, can, None, _prediction(predictions.get(name)), waiting=waiting)
            for name, (health, can, waiting) in states.items()
        }
        now = record.get("decided_after_ms", 0.0) / 1000.0
        return Replayed(
            view=view,
            snapshot=Snapshot(targets, now, record.get("seed", 0), _device(record.get("device"))),
            states=states,
            eligible=tuple([entry["target"] for entry in record["eligible"]]),
            assumed=() if _LATER.issubset(record) else tuple(sorted(_LATER.difference(record))),
        )

    def _states(self, record: Mapping[str, Any]) -> States:
        if "targets" in record:
            return self._same("targets", record["targets"], _states)
        excluded = {name: exclusion["kind"] for name, exclusion in record["excluded"].items()}
        return self._same("excluded", {name: excluded.get(name) for name in record["predictions"]}, _assumed_states)

    def _label(self, value: Mapping[str, Any]) -> Label:
        own = {
            UninspectableCause(cause): DataClass.from_word(word) for cause, word in value.get("key_causes", {}).items()
        }
        rules = self.policy.label_rules.with_causes(own)
        parts = {name: _component(part) for name, part in value["components"].items()}
        causes = frozenset(map(UninspectableCause, value["uninspected"]))
        found = parts.get("findings", NOTHING).tags
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

    def _same(self, kind: str, value: Any, make: Callable[[Any], T]) -> T:
        key = (kind, orjson.dumps(value))
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = make(value)
        made: T = found
        return made


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000.0


def _needs(value: Mapping[str, Any]) -> Needs:
    return Needs(**{**value, "parameters": tuple(value.get("parameters", ()))})


def _tenant(value: tuple[str, list[str], str]) -> Tenant:
    return Tenant(value[0], frozenset(value[1]), value[2])


def _hints(value: Mapping[str, Any]) -> Hints:
    told = {**value, "unreadable": tuple(value.get("unreadable", ()))}
    for name, kind in (("network", Network), ("effective_type", EffectiveType)):
        if name in told:
            told[name] = kind(told[name])
    return Hints(**told)


def _device(value: Mapping[str, Any] | None) -> Device:
    return _UNTOLD if value is None else Device(_CONNECTIVITY[value["connectivity"]], value["free_memory_mb"])


def _component(part: Mapping[str, Any]) -> Component:
    level = part["class"]
    return Component(None if level is None else DataClass.from_word(level), frozenset(part["tags"]))


def _states(value: Mapping[str, Mapping[str, Any]]) -> States:
    return {
        name: (Health(target["health"]), _capabilities(target), target.get("waiting")) for name, target in value.items()
    }


def _capabilities(target: Mapping[str, Any]) -> Capabilities:
    return Capabilities(
        target["served_model"],
        window=target["window"],
        **dict.fromkeys(target["can"], True),
        max_n=target["max_n"],
        parameters=frozenset(target["parameters"]),
    )


def _assumed_states(exclusions: Mapping[str, str | None]) -> States:
    """What can be told from why a target was excluded."""
    return {
        name: (
            Health.DOWN if kind == ExclusionKind.DOWN else Health.UP,
            Capabilities(None) if kind == ExclusionKind.MODEL else ABLE,
            None,
        )
        for name, kind in exclusions.items()
    }


def _prediction(value: Mapping[str, Any] | None) -> Prediction | None:
    if value is None:
        return None
    return Prediction(
        value["ttft_ms"],
        value["total_ms"],
        value["ttft_spread"],
        value["total_spread"],
        value["output_tokens"],
        tuple(value["base"]),
    )

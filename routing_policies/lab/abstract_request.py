"""An abstract request made concrete: as what the policy sees, and as what a caller would send."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inference_protocol import headers
from inference_protocol.request import Needs, Task
from inference_protocol.text_parts import UninspectableCause
from routing_policies.lab.domain import CAUSES, LEVEL_NAME, TAGS, TOTAL, TTFT, Domain
from routing_policies.policy.model import Policy
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.label import Component, DataClass, Label, LabelRules
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.view import RequestView, Tenant

_ORDINARY_TOKENS, _ORDINARY_BYTES = 100, 400
_MOST_WRITTEN_OUT = 4096
# A chat template puts about this many tokens around one message.
_AROUND = 13
_TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
_SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}
# Parts of a message that give just one cause, and none of the needs.
_PART_OF_CAUSE: Mapping[str, Mapping[str, Any]] = {
    "image": {"type": "text", "text": "", "image_url": "https://example.invalid/image.png"},
    "audio": {"type": "text", "text": "", "input_audio": "voice"},
    "blob": {"type": "file", "file_id": "file-1"},
    "undecodable": {"type": "text", "text": "\ud800"},
}


@dataclass(frozen=True, slots=True)
class AbstractRequest:
    """One request out of a domain.

    Attributes:
        values: Name to value, for the names that matter; of a list its items.
        telling: The names whose values are not the ordinary ones.
    """

    values: Mapping[str, Any]
    telling: frozenset[str] = frozenset()

    @classmethod
    def of(cls, domain: Domain, chosen: Sequence[Any]) -> AbstractRequest:
        """Name what was chosen."""
        values: dict[str, Any] = {name: chosen[index] for name, index in domain.scalars.items()}
        for name, members in domain.members.items():
            values[name] = tuple(item for item, index in members.items() if chosen[index])
        told = (v.name for v, value in zip(domain.variables, chosen, strict=True) if value != v.values[0])
        return cls(values, frozenset(told))

    def view(self, policy: Policy, target: str | None = None) -> RequestView:
        """The request as a policy sees it at second 0, with its size exactly known.

        Its tags are declared; those that a target has replaced, where it may, were found.
        """
        get = self.values.get
        tokens = get("size.tokens", _ORDINARY_TOKENS)
        return RequestView(
            task=Task(get("request.task", "chat")),
            model=get("request.model", "auto"),
            stream=get("request.stream", False),
            needs=Needs(
                tools=get("request.tools", False),
                schema=get("request.schema", False),
                images=get("request.images", False),
                audio=get("request.audio", False),
            ),
            label=self._label(policy, self.replaced(policy, target)),
            deadline=Deadline(0.0, _seconds(get(TOTAL, math.inf)), _seconds(get(TTFT, math.inf))),
            size=Size(TokenInterval(tokens, tokens, tokens), get("size.body_bytes", _ORDINARY_BYTES)),
            output_cap=get("request.output_cap", policy.defaults.max_tokens),
            cap_is_own="request.output_cap" in self.values,
            tenant=Tenant(get("tenant.id", "local"), frozenset(get("tenant.roles", ())), get("tenant.residency", "")),
        )

    def replaced(self, policy: Policy, target: str | None) -> frozenset[str]:
        """The tags of findings that a target would be sent tokens for."""
        if target is None:
            return frozenset()
        classes = policy.findings.by_tag()
        could = frozenset(policy.targets[target].pseudonymize).intersection(self.values.get(TAGS, ()))
        return frozenset(tag for tag in could if classes[tag] <= self.level)

    def _label(self, policy: Policy, found: frozenset[str]) -> Label:
        classes = policy.findings.by_tag()
        highest = max((classes[tag] for tag in found), default=None)
        return Label(
            policy.defaults.data_class,
            declared=Component(
                DataClass.PUBLIC if highest == self.level else self.level, frozenset(self.values.get(TAGS, ())) - found
            ),
            findings=Component(highest, found),
            causes=frozenset(map(UninspectableCause, self.values.get(CAUSES, ()))),
        )

    @property
    def level(self) -> DataClass:
        """Its class."""
        return DataClass(self.values.get(LEVEL_NAME, DataClass.PUBLIC))

    def sent(self, rules: LabelRules, found: frozenset[str] = frozenset()) -> dict[str, Any]:
        """The request as headers, body and caller, and what these cannot express under `assume`.

        Where the policy's rules would give it a higher class, for what could not be inspected, it takes a caller whose
        key carries another. Tags that were found stand in no header.
        """
        sent: dict[str, Any] = {"headers": self._headers(rules, found), "body": self._body()}
        tenant = {"tenant": "tenant.id", "roles": "tenant.roles", "residency": "tenant.residency"}
        caller = {key: self.values[name] for key, name in tenant.items() if self.values.get(name)}
        causes = [UninspectableCause(cause) for cause in self.values.get(CAUSES, ())]
        own = {cause.value: self.level.word for cause in causes if rules.of_cause(cause) > self.level}
        if own:
            caller["uninspected"] = own
        assumed = {"tokens": "size.tokens", "body_bytes": "size.body_bytes", "task": "request.task"}
        assume = {key: self.values[name] for key, name in assumed.items() if name in self.values}
        unseen = [cause.value for cause in causes if cause not in _PART_OF_CAUSE]
        if unseen:
            assume["causes"] = unseen
        if found:
            assume["findings"] = sorted(found)
        return sent | ({"caller": caller} if caller else {}) | ({"assume": assume} if assume else {})

    def in_words(self) -> str:
        """What of it is not ordinary, in a line for a person."""
        words = [f"class {self.level.word}"]
        for name in sorted(self.telling - {LEVEL_NAME}):
            value = self.values[name]
            shown = ", ".join(value) if isinstance(value, tuple) else f"{value:g}" if _is_number(value) else f"{value}"
            words.append(name if value is True else f"{name} {shown}")
        return "; ".join(words)

    def _headers(self, rules: LabelRules, found: frozenset[str]) -> dict[str, str]:
        raised = any(rules.of_tag(tag) == self.level for tag in found)
        fields = {headers.DATA_CLASS: DataClass.PUBLIC.word if raised else self.level.word}
        declared = [tag for tag in self.values.get(TAGS, ()) if tag not in found]
        if declared:
            fields[headers.DATA_TAGS] = ",".join(declared)
        for name, header in ((TOTAL, headers.LATENCY_BUDGET_MS), (TTFT, headers.TTFT_BUDGET_MS)):
            budget = self.values.get(name, math.inf)
            if budget < math.inf:
                fields[header] = f"{budget:.9g}"
        return fields

    def _body(self) -> dict[str, Any]:
        get = self.values.get
        words = " ".join(["go"] * max(1, min(get("size.tokens", 0), _MOST_WRITTEN_OUT) - _AROUND))
        causes = set(get(CAUSES, ()))
        parts = [dict(part) for cause, part in _PART_OF_CAUSE.items() if cause in causes]
        # Without its content, such a part needs the ability and hides nothing.
        parts += [{"type": kind} for kind, name in _KINDS.items() if get(name)]
        content: Any = [{"type": "text", "text": words}, *parts] if parts else words
        body: dict[str, Any] = {
            "model": get("request.model", "auto"),
            "messages": [{"role": "user", "content": content}],
        }
        extras = {"stream": ("request.stream", True), "tools": ("request.tools", _TOOLS)}
        extras["response_format"] = ("request.schema", _SCHEMA)
        body |= {key: value for key, (name, value) in extras.items() if get(name)}
        if "request.output_cap" in self.values:
            body["max_tokens"] = get("request.output_cap")
        missing = min(get("size.body_bytes", 0), _MOST_WRITTEN_OUT) - len(json.dumps(body | {"metadata": {"pad": ""}}))
        return body | {"metadata": {"pad": "." * missing}} if missing > 0 else body


_KINDS = {"image_url": "request.images", "input_audio": "request.audio"}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _seconds(milliseconds: float) -> float | None:
    """The seconds that are these milliseconds again when multiplied by 1000, in floating point."""
    if milliseconds == math.inf:
        return None
    near = milliseconds / 1000.0
    beside = (near, math.nextafter(near, -math.inf), math.nextafter(near, math.inf))
    return next((seconds for seconds in beside if seconds * 1000.0 == milliseconds), near)

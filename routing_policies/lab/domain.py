"""The abstract requests of a policy: for each name that matters, a few values that stand for all.

The names are taken as independent of each other, but for the budgets: a default leaves none without one, and a first
content is never due after the whole answer. What could not be inspected says nothing of the class here, since a
caller's key may carry its own classes for that. Where more cases are looked at than can occur, a proof still holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from routing_policies.lab.mentions import REQUEST_TYPES, Mentions, TextMarks
from routing_policies.lab.representatives import TooManyCells, numbers, texts
from routing_policies.policy import names
from routing_policies.policy.expression import Expression
from routing_policies.policy.model import Policy, Target
from routing_policies.policy.names import BOOLEAN, LEVEL, NUMBER, TOKENS
from routing_policies.signals.label import DataClass

TAGS, CAUSES, LEVEL_NAME = "label.tags", "label.causes", "label.level"
TOTAL, TTFT = "deadline.total_ms", "deadline.ttft_ms"
_WHOLE = frozenset({"size.tokens", "size.body_bytes", "request.output_cap", "target.waiting"})
_INFINITE_WHERE_UNSAID = frozenset({TOTAL, TTFT, "client.battery_percent", "device.free_memory_mb"})
_LIKELY_TEXTS: Mapping[str, str] = {"tenant.id": "local", "tenant.residency": "", "request.model": "auto"}
_LIKELY_NUMBERS: Mapping[str, float] = {
    TOTAL: 1000.0,
    TTFT: 500.0,
    "size.tokens": 100,
    "size.body_bytes": 400,
    "client.battery_percent": 80.0,
    "device.free_memory_mb": 4000.0,
    "target.waiting": 0,
}


@dataclass(frozen=True, slots=True)
class Variable:
    """One thing that requests differ in.

    Attributes:
        name: The dotted name.
        member: For a list: the item that this says the presence of.
        values: What it can be, the most ordinary first.
    """

    name: str
    member: str | None
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """All the variables.

    Attributes:
        scalars: Name to the index of its variable.
        members: List to its items, each with the index of its variable.
    """

    variables: tuple[Variable, ...]
    scalars: Mapping[str, int]
    members: Mapping[str, Mapping[str, int]]

    def ordinary(self) -> list[Any]:
        """The request of which nothing is said."""
        return [variable.values[0] for variable in self.variables]


def target_values(name: str, target: Target) -> dict[str, Any]:
    """The values of a target's names."""
    return {known.name: known.read(name, target) for known in names.TARGET_NAMES}


def domain_of(policies: Sequence[Policy], conditions: Iterable[tuple[Policy, Expression]]) -> Domain:
    """Return the domain in which these conditions, and what the policies say of tags, never differ within a cell.

    Raises:
        TooManyCells: A name is told apart in more ways than can be looked at.
    """
    found = Mentions()
    for name in (LEVEL_NAME, TAGS):
        found.read_name(name)
    for policy in policies:
        for target in policy.targets.values():
            found.mark(TAGS).exact.update((*(target.tags_allowed or ()), *target.pseudonymize))
    for policy, tree in conditions:
        for name, target in policy.targets.items():
            found.add(tree, target_values(name, target))
    if TTFT in found.read:
        found.read_name(TOTAL)
        found.link(TOTAL, TTFT)
    variables = tuple(_Builder(found, policies).variables())
    scalars = {variable.name: index for index, variable in enumerate(variables) if variable.member is None}
    members: dict[str, dict[str, int]] = {name: {} for name, kind in found.read.items() if kind.item is not None}
    for index, variable in enumerate(variables):
        if variable.member is not None:
            members[variable.name][variable.member] = index
    return Domain(variables, scalars, members)


@dataclass(frozen=True, slots=True)
class _Builder:
    found: Mentions
    policies: Sequence[Policy]

    def variables(self) -> Iterator[Variable]:
        groups = _groups(self.found)
        for name in REQUEST_TYPES:
            if name in self.found.read:
                yield from self._of(name, groups[name])

    def _of(self, name: str, group: Sequence[str]) -> Iterator[Variable]:
        kind = self.found.read[name]
        if kind.item is not None:
            items = self._texts(name, group) if kind.item.words is None else self._causes(kind.item.words)
            yield from (Variable(name, item, (False, True)) for item in items)
        elif kind is LEVEL:
            yield Variable(name, None, tuple(int(level) for level in DataClass))
        elif kind is BOOLEAN:
            yield Variable(name, None, (False, True))
        elif kind in (NUMBER, TOKENS):
            yield Variable(name, None, self._numbers(name, group))
        else:
            yield Variable(name, None, kind.words or self._texts(name, group))

    def _causes(self, words: Sequence[str]) -> Sequence[str]:
        """Only those that are mentioned, where nothing looks at the others."""
        if CAUSES in self.found.looked_through:
            return words
        return [word for word in words if word in self.found.mark(CAUSES).exact]

    def _texts(self, name: str, group: Sequence[str]) -> tuple[str, ...]:
        lists = sum(self.found.read[member].item is not None for member in group)
        # Two values differ by which lists of the group hold them, and scalars from each other.
        variants = max(1, len(group) - lists + 2**lists - 1)
        variants += max((self.found.sizes[member] + 1 for member in group if member in self.found.sizes), default=0)
        own = _LIKELY_TEXTS.get(name)
        likely = [] if self.found.read[name].item is not None or own is None else [own]
        others = [_LIKELY_TEXTS[member] for member in group if member in _LIKELY_TEXTS] if len(group) > 1 else []
        found = texts([self.found.texts.get(member, TextMarks()) for member in group], [*likely, *others], variants)
        # No tag is empty.
        return tuple(text for text in found if text) if name == TAGS else found

    def _numbers(self, name: str, group: Sequence[str]) -> tuple[float, ...]:
        literals = {number for member in group for number in self.found.numbers.get(member, ())}
        likely = _LIKELY_NUMBERS.get(name, self.policies[0].defaults.max_tokens)
        found = numbers(
            literals,
            likely,
            whole=name in _WHOLE,
            apart=len(group),
            beside_whole=any(member in _WHOLE for member in group),
        )
        return (math.inf, *found) if name in _INFINITE_WHERE_UNSAID else tuple(found)


def _groups(found: Mentions) -> dict[str, list[str]]:
    """Each name with all that it is, also by way of others, compared with."""
    groups: dict[str, list[str]] = {name: [name] for name in found.read}
    for left, right in sorted(found.links):
        if groups[left] is not groups[right]:
            joined = groups[left] + groups[right]
            for name in joined:
                groups[name] = joined
    return groups


__all__ = ["Domain", "TooManyCells", "Variable", "domain_of", "target_values"]

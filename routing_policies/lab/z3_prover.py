"""The same proofs by an SMT solver, from the conditions' trees and nothing of ours in between: a second opinion.

Needs the extra `prove`. A list of a request is a row of places for items. As many places as conditions look at the list
are enough: each needs one item at most to be true, or not to be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from inference_protocol.text_parts import UninspectableCause
from routing_policies.lab.domain import CAUSES, LEVEL_NAME, TAGS, TOTAL, TTFT, target_values
from routing_policies.lab.mentions import REQUEST_TYPES
from routing_policies.policy import names
from routing_policies.policy.expression import Call, Expression, ListOf, Literal, Logical, Name, Not, Relation, parse
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.names import BOOLEAN, LEVEL, NUMBER, TOKENS
from routing_policies.policy.rules import HardRule
from routing_policies.signals.label import DataClass

TIMEOUT_MS = 5000
_REALS = frozenset({TOTAL, TTFT})


@dataclass(frozen=True, slots=True)
class _Number:
    """A number that may be infinite."""

    infinite: Any
    value: Any


@dataclass(frozen=True, slots=True)
class _Place:
    present: Any
    item: Any


def holds(loaded: LoadedPolicy, invariant: str, timeout_ms: int = TIMEOUT_MS) -> bool | None:
    """Return whether an invariant holds for every target, or `None` where the solver gives up on one of them."""
    answers = [_unsatisfiable(loaded, invariant, target, timeout_ms) for target in loaded.policy.targets]
    if False in answers:
        return False
    return None if None in answers else True


def _unsatisfiable(loaded: LoadedPolicy, invariant: str, target: str, timeout_ms: int) -> bool | None:
    count = len(loaded.policy.constraints)
    wanted = next(rule for rule in loaded.constraints[count:] if rule.id == invariant)
    trees = [parse(condition.source) for rule in loaded.constraints for condition in _conditions(rule)]
    encoder = _Encoder(loaded, target, 1 + sum(map(_looks_at_lists, trees)))
    solver = z3.Solver()
    solver.set("timeout", timeout_ms)
    broken = z3.Not(encoder.permits(wanted))
    admitted = [z3.Or(z3.Not(encoder.when(rule)), encoder.permits(rule)) for rule in loaded.constraints[:count]]
    solver.add(encoder.when(wanted), broken, *admitted, *encoder.promises())
    solver.add(*encoder.background())  # last: what was read is known only now
    answer = solver.check()
    return None if answer == z3.unknown else bool(answer == z3.unsat)


def _conditions(rule: HardRule) -> Iterator[Any]:
    yield rule.when
    if rule.require is not None:
        yield rule.require


def _looks_at_lists(node: Expression) -> int:
    match node:
        case Not():
            return _looks_at_lists(node.operand)
        case Logical():
            return _looks_at_lists(node.left) + _looks_at_lists(node.right)
        case Relation(sign="in"):
            return 1
        case Relation(left=Call(method="size"), right=Literal(value=number)):
            return 1 + max(0, int(number))
        case Relation(left=Literal(value=number), right=Call(method="size")):
            return 1 + max(0, int(number))
        case Relation():
            return _looks_at_lists(node.left) + _looks_at_lists(node.right)
        case Call(method="exists" | "all", arguments=(_, body)):
            return 1 + _looks_at_lists(body)
        case _:
            return 0


@dataclass(slots=True)
class _Encoder:
    loaded: LoadedPolicy
    target: str
    places: int
    scalars: dict[str, Any] = field(default_factory=dict)
    lists: dict[str, Sequence[_Place]] = field(default_factory=dict)
    bound: dict[str, Any] = field(default_factory=dict)
    known: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.known = target_values(self.target, self.loaded.policy.targets[self.target])
        self._scalar(LEVEL_NAME)
        self._list(TAGS)

    def when(self, rule: HardRule) -> Any:
        return self._of(parse(rule.when.source))

    def permits(self, rule: HardRule) -> Any:
        if rule.require is None:
            return z3.BoolVal(self.target not in rule.denied)
        return self._of(parse(rule.require.source))

    def promises(self) -> Iterator[Any]:
        promise = self.loaded.policy.targets[self.target]
        level = self._scalar(LEVEL_NAME).value
        found = {tag: int(self.loaded.label_rules.of_tag(tag)) for tag in promise.pseudonymize}
        lowered = [
            z3.And(place.present, place.item == tag, level == least)
            for place in self.lists[TAGS]
            for tag, least in found.items()
        ]
        yield z3.Or(level <= int(promise.clearance), *lowered)
        allowed = promise.tags_allowed
        if allowed is None and promise.on_device:
            return
        for place in self.lists[TAGS]:
            gone = [z3.And(place.item == tag, level >= least) for tag, least in found.items()]
            yield z3.Implies(place.present, z3.Or([*(place.item == tag for tag in allowed or ()), *gone]))

    def background(self) -> Iterator[Any]:
        """What holds for every request that can come."""
        for name, value in self.scalars.items():
            yield from self._range(name, value)
        for name, places in self.lists.items():
            yield from self._list_range(name, places)
        if TTFT in self.scalars:
            ttft, total = self._scalar(TTFT), self._scalar(TOTAL)
            yield from self._range(TOTAL, total)
            yield z3.Or(ttft.infinite, _at_most(ttft, total))

    def _range(self, name: str, value: Any) -> Iterator[Any]:
        kind, defaults = REQUEST_TYPES[name], self.loaded.deadline_defaults
        if kind is LEVEL:
            yield z3.And(value.value >= 0, value.value <= int(DataClass.RESTRICTED))
        elif kind in (NUMBER, TOKENS) and name not in _REALS:
            yield value.value >= 0
        elif name in _REALS and (defaults.total_ms if name == TOTAL else defaults.ttft_ms) is not None:
            yield z3.Not(value.infinite)
        elif kind.words is not None:
            yield z3.Or([value == word for word in kind.words])

    def _list_range(self, name: str, places: Sequence[_Place]) -> Iterator[Any]:
        for index, place in enumerate(places):
            for other in places[:index]:
                yield z3.Implies(z3.And(place.present, other.present), place.item != other.item)
            if name == TAGS:
                yield z3.Implies(place.present, place.item != "")
            if name == CAUSES:
                yield z3.Implies(place.present, z3.Or([place.item == cause.value for cause in UninspectableCause]))

    def _of(self, node: Expression) -> Any:
        match node:
            case Literal(value=value):
                return _literal(value)
            case Name(name=name):
                return self._named(name)
            case Not():
                return z3.Not(self._of(node.operand))
            case Logical():
                join = z3.And if node.sign == "&&" else z3.Or
                return join(self._of(node.left), self._of(node.right))
            case Relation(sign="in"):
                item = self._of(node.left)
                return z3.Or([z3.And(place.present, _equal(place.item, item)) for place in self._places(node.right)])
            case Relation():
                return _RELATIONS[node.sign](self._of(node.left), self._of(node.right))
            case Call():
                return self._call(node)
        raise AssertionError("the checker lets a list stand only where its items are looked at")

    def _named(self, name: str) -> Any:
        if name in self.bound:
            return self.bound[name]
        if name in names.CONSTANTS:
            return _literal(int(names.CONSTANTS[name]))
        return _literal(self.known[name]) if name in self.known else self._scalar(name)

    def _scalar(self, name: str) -> Any:
        if name not in self.scalars:
            kind = REQUEST_TYPES[name]
            if name in _REALS:
                self.scalars[name] = _Number(z3.Bool(f"{name} infinite"), z3.Real(name))
            elif kind in (NUMBER, TOKENS, LEVEL):
                self.scalars[name] = _Number(z3.BoolVal(False), z3.Int(name))
            else:
                self.scalars[name] = z3.Bool(name) if kind is BOOLEAN else z3.String(name)
        return self.scalars[name]

    def _list(self, name: str) -> Sequence[_Place]:
        if name not in self.lists:
            self.lists[name] = [
                _Place(z3.Bool(f"{name} {index} present"), z3.String(f"{name} {index}")) for index in range(self.places)
            ]
        return self.lists[name]

    def _places(self, node: Expression) -> Sequence[_Place]:
        if isinstance(node, ListOf):
            return [_Place(z3.BoolVal(True), self._of(item)) for item in node.items]
        assert isinstance(node, Name), "the checker saw to it"
        return self._list(node.name)

    def _call(self, node: Call) -> Any:
        if node.method == "size":
            present = [z3.If(place.present, 1, 0) for place in self._places(node.receiver)]
            return _Number(z3.BoolVal(False), z3.Sum(present) if present else z3.IntVal(0))
        if node.method not in {"exists", "all"}:
            return _METHODS[node.method](self._of(node.receiver), self._of(node.arguments[0]))
        variable, body = node.arguments
        assert isinstance(variable, Name), "the checker saw to it"
        answers = []
        for place in self._places(node.receiver):
            self.bound[variable.name] = place.item
            answer = self._of(body)
            exists = node.method == "exists"
            answers.append(z3.And(place.present, answer) if exists else z3.Implies(place.present, answer))
        del self.bound[variable.name]
        return z3.Or(answers) if node.method == "exists" else z3.And(answers)


def _literal(value: str | float | bool) -> Any:
    if isinstance(value, bool):
        return z3.BoolVal(value)
    if isinstance(value, str):
        return z3.StringVal(value)
    infinite = value == math.inf
    return _Number(z3.BoolVal(infinite), z3.RealVal(0 if infinite else value))


def _equal(left: Any, right: Any) -> Any:
    if not isinstance(left, _Number):
        return left == right
    both_finite = z3.And(z3.Not(left.infinite), z3.Not(right.infinite), left.value == right.value)
    return z3.Or(z3.And(left.infinite, right.infinite), both_finite)


def _at_most(left: _Number, right: _Number) -> Any:
    return z3.Or(right.infinite, z3.And(z3.Not(left.infinite), left.value <= right.value))


_RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": _equal,
    "!=": lambda left, right: z3.Not(_equal(left, right)),
    "<": lambda left, right: z3.Not(_at_most(right, left)),
    "<=": _at_most,
    ">": lambda left, right: z3.Not(_at_most(left, right)),
    ">=": lambda left, right: _at_most(right, left),
}
_METHODS: Mapping[str, Callable[[Any, Any], Any]] = {
    "startsWith": lambda text, start: z3.PrefixOf(start, text),
    "endsWith": lambda text, end: z3.SuffixOf(end, text),
    "contains": z3.Contains,
}

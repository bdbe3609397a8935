"""Conditions as functions of an abstract request, of which parts may still be open.

The answer is then `True`, `False`, or `None` where it depends on what is open (Kleene's three values), so that a search
can turn back before everything is chosen.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from routing_policies.lab.domain import Domain
from routing_policies.policy import names
from routing_policies.policy.expression import Call, Expression, ListOf, Literal, Logical, Name, Not, Relation

Chosen = Sequence[Any]
"""A value for each variable of a domain; `None` where it is still open."""

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
}


@dataclass(frozen=True, slots=True)
class Formula:
    """A value that depends on an abstract request.

    Attributes:
        of: From what is chosen to the value, or to `None` where what is open decides.
        reads: The variables it depends on; with none of them it is a constant.
    """

    of: Callable[[Chosen], Any]
    reads: frozenset[int] = frozenset()

    @property
    def constant(self) -> Any:
        """The value where it depends on nothing, else `None`."""
        return None if self.reads else self.of(())


def constant(value: Any) -> Formula:
    """A formula that is always the same."""
    return Formula(lambda _: value)


TRUE, FALSE = constant(True), constant(False)


def variable(index: int) -> Formula:
    """The value of a variable."""
    return Formula(lambda chosen: chosen[index], frozenset({index}))


def negation(inner: Formula) -> Formula:
    """`!inner`."""
    if inner.constant is not None:
        return constant(not inner.constant)
    of = inner.of

    def value(chosen: Chosen) -> bool | None:
        found: bool | None = of(chosen)
        return None if found is None else not found

    return Formula(value, inner.reads)


def conjunction(parts: Iterable[Formula]) -> Formula:
    """Whether all hold; parts that always hold are left out."""
    return _joined(parts, decisive=False)


def disjunction(parts: Iterable[Formula]) -> Formula:
    """Whether any holds."""
    return _joined(parts, decisive=True)


def _joined(parts: Iterable[Formula], *, decisive: bool) -> Formula:
    """Join parts of which one with the decisive value settles the whole."""
    undecided: list[Formula] = []
    for part in parts:
        if part.constant is decisive:
            return constant(decisive)
        if part.constant is None:
            undecided.append(part)
    if len(undecided) < 2:
        return undecided[0] if undecided else constant(not decisive)
    calls = [part.of for part in undecided]

    def value(chosen: Chosen) -> bool | None:
        open_part = False
        for call in calls:
            found: bool | None = call(chosen)
            if found is decisive:
                return decisive
            open_part = open_part or found is None
        return None if open_part else not decisive

    return Formula(value, frozenset().union(*(part.reads for part in undecided)))


def apply(function: Callable[[Any, Any], Any], left: Formula, right: Formula) -> Formula:
    """A function of two values, open while one of them is."""
    if not left.reads and not right.reads:
        return constant(function(left.constant, right.constant))
    left_of, right_of = left.of, right.of

    def value(chosen: Chosen) -> Any:
        a = left_of(chosen)
        if a is None:
            return None
        b = right_of(chosen)
        return None if b is None else function(a, b)

    return Formula(value, left.reads | right.reads)


def formula_of(tree: Expression, domain: Domain, target: Mapping[str, Any]) -> Formula:
    """Return a checked condition as a formula, with the values of one target's names (none, for a `when`)."""
    return _Compiler(domain, target).of(tree)


@dataclass(slots=True)
class _Compiler:
    domain: Domain
    target: Mapping[str, Any]
    bound: dict[str, Formula] = field(default_factory=dict)

    def of(self, node: Expression) -> Formula:
        match node:
            case Literal(value=value):
                return constant(value)
            case Name(name=name):
                return self._name(name)
            case Not(operand=operand):
                return negation(self.of(operand))
            case Logical(sign=sign, left=left, right=right):
                join = conjunction if sign == "&&" else disjunction
                return join([self.of(left), self.of(right)])
            case Relation(sign="in", left=left, right=right):
                item = self.of(left)
                return disjunction(
                    conjunction([present, apply(operator.eq, item, member)]) for member, present in self._items(right)
                )
            case Relation(sign=sign, left=left, right=right):
                return apply(_COMPARE[sign], self.of(left), self.of(right))
            case Call():
                return self._call(node)
            case ListOf():
                raise AssertionError("the checker lets a list stand only where its items are looked at")

    def _name(self, name: str) -> Formula:
        if name in self.bound:
            return self.bound[name]
        if name in names.CONSTANTS:
            return constant(int(names.CONSTANTS[name]))
        if name in self.target:
            return constant(self.target[name])
        return variable(self.domain.scalars[name])

    def _items(self, node: Expression) -> list[tuple[Formula, Formula]]:
        """The items of a list, each with whether it is there."""
        if isinstance(node, ListOf):
            return [(self.of(item), TRUE) for item in node.items]
        assert isinstance(node, Name), "the checker saw to it"
        return [(constant(item), variable(index)) for item, index in self.domain.members[node.name].items()]

    def _call(self, node: Call) -> Formula:
        if node.method == "size":
            return _count([present for _, present in self._items(node.receiver)])
        if node.method not in {"exists", "all"}:
            return apply(_COMPARE[node.method], self.of(node.receiver), self.of(node.arguments[0]))
        variable_name, body = node.arguments
        assert isinstance(variable_name, Name), "the checker saw to it"
        answers: list[Formula] = []
        for item, present in self._items(node.receiver):
            self.bound[variable_name.name] = item
            answer = self.of(body)
            answers.append(
                conjunction([present, answer]) if node.method == "exists" else disjunction([negation(present), answer])
            )
        del self.bound[variable_name.name]
        return disjunction(answers) if node.method == "exists" else conjunction(answers)


def _count(presences: Sequence[Formula]) -> Formula:
    calls = [presence.of for presence in presences]

    def value(chosen: Chosen) -> int | None:
        total = 0
        for call in calls:
            found = call(chosen)
            if found is None:
                return None
            total += found
        return total

    return Formula(value, frozenset().union(*(presence.reads for presence in presences)))

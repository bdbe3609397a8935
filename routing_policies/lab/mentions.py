"""What the conditions of a policy mention: the names they read, and with what each is compared.

Two requests that no mentioned literal tells apart are decided alike, so a few representatives stand for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from routing_policies.policy import names
from routing_policies.policy.expression import (
    Call,
    Expression,
    ListOf,
    Literal,
    Logical,
    Name,
    Not,
    Relation,
)
from routing_policies.policy.names import ValueType


@dataclass(frozen=True, slots=True)
class Known:
    """A value that is the same for every request."""

    value: str | float | bool


@dataclass(frozen=True, slots=True)
class Open:
    """A value of the request, or an item of one of its lists, by the name of the list."""

    name: str


@dataclass(frozen=True, slots=True)
class SizeOf:
    """The number of items of a list of the request."""

    name: str


Operand = Known | Open | SizeOf


@dataclass(slots=True)
class TextMarks:
    """What a text, or the items of a list, are compared with."""

    exact: set[str] = field(default_factory=set)
    prefixes: set[str] = field(default_factory=set)
    suffixes: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)

    def of_method(self, method: str) -> set[str]:
        """The marks that a method of text leaves."""
        return {"startsWith": self.prefixes, "endsWith": self.suffixes, "contains": self.parts}[method]


@dataclass(slots=True)
class Mentions:
    """Everything that was mentioned, by the dotted name of what it was mentioned with.

    Attributes:
        read: The names of the request that are read at all.
        links: Pairs of names that are compared with each other.
        sizes: List to the largest number that its size is compared with.
        looked_through: Lists of which a condition sees more than whether they hold one item.
    """

    read: dict[str, ValueType] = field(default_factory=dict)
    texts: dict[str, TextMarks] = field(default_factory=dict)
    numbers: dict[str, set[float]] = field(default_factory=dict)
    links: set[tuple[str, str]] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    looked_through: set[str] = field(default_factory=set)

    def read_name(self, name: str) -> ValueType:
        """Note that a name of the request is read; return its type."""
        return self.read.setdefault(name, REQUEST_TYPES[name])

    def mark(self, name: str) -> TextMarks:
        """The marks of a text or list, to add to."""
        return self.texts.setdefault(name, TextMarks())

    def link(self, left: str, right: str) -> None:
        """Note that two names are compared with each other."""
        if left != right:
            self.links.add((min(left, right), max(left, right)))

    def add(self, tree: Expression, target: Mapping[str, Any]) -> None:
        """Take in a condition, with the values of one target's names."""
        _Walk(self, target).visit(tree)


REQUEST_TYPES: Mapping[str, ValueType] = {
    **{known.name: known.type for known in names.REQUEST_NAMES},
    **{known.name: known.type for known in names.STATE_NAMES},
}
"""What a condition leaves open: all but what the policy says of its targets."""


@dataclass(slots=True)
class _Walk:
    found: Mentions
    target: Mapping[str, Any]
    bound: dict[str, Sequence[Operand]] = field(default_factory=dict)

    def visit(self, node: Expression) -> None:
        match node:
            case Name():
                self._operands(node)
            case Not():
                self.visit(node.operand)
            case Logical():
                self.visit(node.left)
                self.visit(node.right)
            case Relation(sign="in"):
                self._membership(node)
            case Relation():
                self._pairs(self._operands(node.left), self._operands(node.right))
            case Call(method="exists" | "all"):
                self._look_through(node.receiver)
                variable, body = node.arguments
                assert isinstance(variable, Name), "the checker saw to it"
                self.bound[variable.name] = self._items(node.receiver)
                self.visit(body)
                del self.bound[variable.name]
            case Call():
                self._method(node)

    def _membership(self, node: Relation) -> None:
        self._pairs(self._operands(node.left), self._items(node.right))
        if isinstance(node.right, Name):
            if isinstance(node.left, Literal):
                self.found.mark(node.right.name).exact.add(str(node.left.value))
            else:
                self._look_through(node.right)

    def _pairs(self, lefts: Iterable[Operand], rights: Sequence[Operand]) -> None:
        for left in lefts:
            for right in rights:
                self._compared(left, right)

    def _compared(self, left: Operand, right: Operand) -> None:
        match left, right:
            case Open(), Open():
                self.found.link(left.name, right.name)
            case (Open(name), Known(str(text))) | (Known(str(text)), Open(name)):
                self.found.mark(name).exact.add(text)
            case (SizeOf(name), Known(int(number))) | (Known(int(number)), SizeOf(name)):
                self.found.sizes[name] = max(self.found.sizes.get(name, 0), number)
            case (Open(name), Known(number)) | (Known(number), Open(name)):
                self.found.numbers.setdefault(name, set()).add(float(number))

    def _method(self, node: Call) -> None:
        if node.method == "size":
            self._operands(node)
            return
        for receiver in self._operands(node.receiver):
            for argument in self._operands(node.arguments[0]):
                match receiver, argument:
                    case Open(name), Known(str(text)):
                        self.found.mark(name).of_method(node.method).add(text)
                    case Known(str(text)), Open(name):
                        self.found.mark(name).exact.update(_pieces(text, node.method))

    def _operands(self, node: Expression) -> Sequence[Operand]:
        match node:
            case Literal(value=value):
                return [Known(value)]
            case Name(name=name):
                return self._named(name)
            case Call(method="size", receiver=Name(name=name)):
                self._look_through(node.receiver)
                self.found.sizes.setdefault(name, 0)
                return [SizeOf(name)]
            case _:
                self.visit(node)
                return []

    def _named(self, name: str) -> Sequence[Operand]:
        if name in self.bound:
            return self.bound[name]
        if name in names.CONSTANTS:
            return [Known(int(names.CONSTANTS[name]))]
        if name in self.target:
            return [Known(self.target[name])]
        if name not in REQUEST_TYPES:
            return []  # of a target, and none is looked at
        words = self.found.read_name(name).words
        return [Open(name)] if words is None else [Known(word) for word in words]

    def _items(self, node: Expression) -> Sequence[Operand]:
        if isinstance(node, ListOf):
            return [operand for item in node.items for operand in self._operands(item)]
        if not isinstance(node, Name):
            return []
        item = self.found.read_name(node.name).item
        assert item is not None, "the checker saw to it"
        return [Open(node.name)] if item.words is None else [Known(word) for word in item.words]

    def _look_through(self, node: Expression) -> None:
        if isinstance(node, Name):
            self.found.read_name(node.name)
            self.found.looked_through.add(node.name)


def _pieces(text: str, method: str) -> Iterable[str]:
    """Every text that a known one starts with, ends with or contains."""
    ends = range(len(text) + 1)
    if method == "startsWith":
        return (text[:end] for end in ends)
    if method == "endsWith":
        return (text[start:] for start in ends)
    return (text[start:end] for start in ends for end in ends if start <= end)

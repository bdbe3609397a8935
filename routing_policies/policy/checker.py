"""The load-time check of a condition: every name exists, every part has the right type, the whole is true or false.

Classes compare only with classes: CEL would compare `"restricted"` with `"public"` by alphabet, and a number says
nothing to a reader. A comprehension may not hold another one, so that a condition's cost is bounded by its length times
the longest list of a request. Two open texts of a request are compared only as a whole, and a list's size only with a
literal, so that what a condition can say of all requests is settled by finitely many of them: the prover needs that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from routing_policies.policy import names
from routing_policies.policy.errors import choice, suggestion
from routing_policies.policy.expression import (
    Call,
    Expression,
    ListOf,
    Literal,
    Logical,
    Name,
    Not,
    Relation,
    SyntaxFault,
)
from routing_policies.policy.names import BOOLEAN, COUNT, LEVEL, NUMBER, TEXT, TOKENS, Scope, ValueType

_TEXT_METHODS = ("startsWith", "endsWith", "contains")
_LIST_METHODS = ("exists", "all", "size")
_ORDERED = (NUMBER, TOKENS, COUNT, LEVEL)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a check found.

    Attributes:
        names: The dotted names and constants that the condition reads, each with its offset, in order.
        token_thresholds: The numbers that it compares `size.tokens` with.
    """

    names: tuple[tuple[int, str], ...]
    token_thresholds: tuple[int, ...]


def check(tree: Expression, schema: Mapping[str, ValueType], scope: Scope) -> Facts:
    """Check a condition against the names it may use where it stands.

    Raises:
        SyntaxFault: With the place of the fault.
    """
    checker = _Checker(schema, scope)
    found = checker.type_of(tree)
    if found != BOOLEAN:
        raise SyntaxFault(tree.at, f"a condition must be true or false, and this is {found.word}")
    return Facts(tuple(sorted(checker.read)), tuple(checker.thresholds))


@dataclass(slots=True)
class _Checker:
    schema: Mapping[str, ValueType]
    scope: Scope
    read: list[tuple[int, str]] = field(default_factory=list)
    thresholds: list[int] = field(default_factory=list)
    bound: dict[str, ValueType] = field(default_factory=dict)

    def type_of(self, node: Expression) -> ValueType:
        match node:
            case Literal(value=bool()):
                return BOOLEAN
            case Literal(value=str(value)):
                return names.one_of([value])
            case Literal():
                return NUMBER
            case Name():
                return self._name(node)
            case ListOf():
                return self._list(node)
            case Not():
                self._boolean(node.operand, "`!`")
            case Logical():
                self._boolean(node.left, f"`{node.sign}`")
                self._boolean(node.right, f"`{node.sign}`")
            case Relation():
                self._relation(node)
            case Call():
                return self._call(node)
        return BOOLEAN

    def _name(self, node: Name) -> ValueType:
        if node.name in self.bound:
            return self.bound[node.name]
        if node.name in names.CONSTANTS:
            self.read.append((node.at, node.name))
            return LEVEL
        found = self.schema.get(node.name)
        if found is None:
            raise SyntaxFault(node.at, self._unknown(node.name))
        if node.name in names.SOFT and self.scope is not Scope.PREFER:
            raise SyntaxFault(
                node.at,
                f"`{node.name}` may stand in `prefer` only: a caller can leave it out or it changes by itself, so who "
                "may answer never hangs on it",
            )
        if node.name.startswith("target.") and self.scope is Scope.WHEN:
            raise SyntaxFault(node.at, "`when` sees the request only; say what a target must be in `require`")
        self.read.append((node.at, node.name))
        return found

    def _unknown(self, name: str) -> str:
        root, _, _ = name.partition(".")
        fields = [known for known in self.schema if known.startswith(f"{root}.")]
        if fields:
            return f"there is no `{name}`{choice(name, fields)}"
        known = [*self.schema, *names.CONSTANTS]
        return f"there is no `{name}`{suggestion(name, known) or '; names and types stand in docs/policies.md'}"

    def _list(self, node: ListOf) -> ValueType:
        types = [self.type_of(item) for item in node.items]
        if not types:
            raise SyntaxFault(node.at, "an empty list matches nothing")
        for item, found in zip(node.items, types, strict=True):
            if found.word != types[0].word:
                raise SyntaxFault(item.at, f"the list begins with {types[0].word}, and this is {found.word}")
        if types[0].word != TEXT.word:
            return ValueType("a list", item=types[0])
        words = [word for found in types for word in found.words or ()]
        return ValueType("a list of text", item=names.one_of(words))

    def _boolean(self, node: Expression, sign: str) -> None:
        found = self.type_of(node)
        if found != BOOLEAN:
            raise SyntaxFault(node.at, f"{sign} joins what is true or false, and this is {found.word}")

    def _relation(self, node: Relation) -> None:
        left, right = self.type_of(node.left), self.type_of(node.right)
        if node.sign == "in":
            if right.item is None:
                raise SyntaxFault(node.right.at, f"`in` looks into a list, and this is {right.word}")
            self._comparable(node, left, right.item)
            return
        self._comparable(node, left, right)
        if node.sign not in {"==", "!="} and left not in _ORDERED:
            raise SyntaxFault(node.at, f"`{node.sign}` compares numbers and classes, and this is {left.word}")

    def _comparable(self, node: Relation, left: ValueType, right: ValueType) -> None:
        for counted in (TOKENS, COUNT):
            if counted in (left, right):
                self._counted(node, counted, right if left is counted else left)
                return
        if left.word != right.word:
            raise SyntaxFault(node.at, f"{left.word} is compared with {right.word}{_class_hint(node, left, right)}")
        if left.item is not None:
            raise SyntaxFault(node.at, "lists are not compared; use `in`, `exists` or `all`")
        if left.words is not None and right.words is not None:
            closed, given, at = (
                (left.words, right.words, node.right.at)
                if not isinstance(node.left, Literal)
                else (right.words, left.words, node.left.at)
            )
            for word in given:
                if word not in closed:
                    raise SyntaxFault(at, f'it is never "{word}"{choice(word, closed)}')

    def _counted(self, node: Relation, counted: ValueType, other: ValueType) -> None:
        """Bounds on the number of tokens suffice to decide such a rule, except close to the literal."""
        literal = node.right if isinstance(node.right, Literal) else node.left
        if other is not NUMBER or not isinstance(literal, Literal) or not isinstance(literal.value, int):
            what = "`size.tokens`" if counted is TOKENS else "`size()`"
            raise SyntaxFault(node.at, f"{what} is compared with a whole number that stands beside it")
        if counted is TOKENS:
            self.thresholds.append(literal.value)

    def _call(self, node: Call) -> ValueType:
        receiver = self.type_of(node.receiver)
        if receiver.item is not None:
            return self._list_call(node, receiver.item)
        if receiver.word != TEXT.word:
            raise SyntaxFault(node.at, f"{receiver.word} has no methods")
        if node.method == "size":
            raise SyntaxFault(node.at, "`size()` of text counts bytes, not characters, and is not allowed")
        if node.method not in _TEXT_METHODS:
            raise SyntaxFault(node.at, f"text has no `{node.method}`{choice(node.method, _TEXT_METHODS)}")
        if len(node.arguments) != 1:
            raise SyntaxFault(node.at, f"`{node.method}` takes one text")
        argument = self.type_of(node.arguments[0])
        if argument.word != TEXT.word:
            raise SyntaxFault(node.at, f"`{node.method}` takes one text")
        if not self._is_known(node.receiver, receiver) and not self._is_known(node.arguments[0], argument):
            raise SyntaxFault(node.at, f"one side of `{node.method}` must be written out or be of the target")
        return BOOLEAN

    @staticmethod
    def _is_known(node: Expression, found: ValueType) -> bool:
        """Whether a text has one of finitely many values that the policy itself names."""
        return found.words is not None or (isinstance(node, Name) and node.name.startswith("target."))

    def _list_call(self, node: Call, item: ValueType) -> ValueType:
        if node.method == "size" and not node.arguments:
            return COUNT
        if node.method not in {"exists", "all"}:
            raise SyntaxFault(node.at, f"a list has no `{node.method}`{choice(node.method, _LIST_METHODS)}")
        match node.arguments:
            case (Name() as variable, body) if "." not in variable.name:
                pass
            case _:
                raise SyntaxFault(node.at, f"write `{node.method}(item, condition on item)`")
        if self.bound:
            raise SyntaxFault(node.at, "a comprehension may not hold another one")
        taken = (*names.CONSTANTS, *(known.partition(".")[0] for known in self.schema))
        if variable.name in taken or "__" in variable.name:
            raise SyntaxFault(variable.at, f"`{variable.name}` already means something; choose another name")
        self.bound[variable.name] = item
        self._boolean(body, f"`{node.method}`")
        self.bound.clear()
        return BOOLEAN


def _class_hint(node: Relation, left: ValueType, right: ValueType) -> str:
    if LEVEL not in (left, right):
        return ""
    other = node.right if left is LEVEL else node.left
    given = str(other.value).upper() if isinstance(other, Literal) else ""
    return f"; write a class as a constant{choice(given, names.CONSTANTS)}"

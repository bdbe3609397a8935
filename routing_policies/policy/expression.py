"""The subset of CEL that conditions are written in, as a tree with the place of each part.

The evaluator keeps its own tree to itself, and finds a wrong name or type only when it runs into it. This one is what
load-time checks read. Everything it accepts is CEL and means the same there. Left out, because no rule needs it and
each makes a condition harder to bound or to prove: arithmetic, ternaries, indexing, maps, regular expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

MAX_CHARS = 1000
MAX_NESTING = 24

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>-?[0-9]+(?:\.[0-9]+)?(?![\w.]))
    | (?P<string>"(?:[^"\\\n]|\\["'\\])*"|'(?:[^'\\\n]|\\["'\\])*')
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    | (?P<sign>&&|\|\||[<>=!]=|[<>!()\[\],.])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_RELATIONS = frozenset({"<", "<=", ">", ">=", "==", "!=", "in"})


class SyntaxFault(Exception):
    """A condition cannot be read; `at` is the offset of the fault in its text."""

    def __init__(self, at: int, message: str) -> None:
        """Say what is wrong and where."""
        super().__init__(message)
        self.at = at
        self.message = message


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, `true` or `false`."""

    at: int
    value: str | float | bool


@dataclass(frozen=True, slots=True)
class Name:
    """A dotted name, such as `label.level`, a constant or a comprehension's variable."""

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list written out."""

    at: int
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """`!operand`."""

    at: int
    operand: Expression


@dataclass(frozen=True, slots=True)
class Logical:
    """`&&` or `||`."""

    at: int
    sign: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Relation:
    """A comparison or `in`."""

    at: int
    sign: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A method call, such as `target.region.startsWith("eu")`."""

    at: int
    receiver: Expression
    method: str
    arguments: tuple[Expression, ...]


Expression = Literal | Name | ListOf | Not | Logical | Relation | Call


def parse(source: str) -> Expression:
    """Read a condition.

    Raises:
        SyntaxFault: It is too long, nested too deep, or not in the language.
    """
    if len(source) > MAX_CHARS:
        raise SyntaxFault(0, f"a condition may have {MAX_CHARS} characters, not {len(source)}")
    return _Parser(source).whole()


class _Parser:
    """Recursive descent; precedence as CEL's: `||`, `&&`, one relation, `!`, method calls."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._offset = 0
        self._depth = 0
        self._advance()

    def whole(self) -> Expression:
        found = self._either()
        if self._kind != "end":
            self._fail(f"`{self._text}` cannot stand here")
        return found

    def _either(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._fail(f"nested more than {MAX_NESTING} deep")
        left = self._both()
        while self._text == "||":
            at = self._take()
            left = Logical(at, "||", left, self._both())
        self._depth -= 1
        return left

    def _both(self) -> Expression:
        left = self._relation()
        while self._text == "&&":
            at = self._take()
            left = Logical(at, "&&", left, self._relation())
        return left

    def _relation(self) -> Expression:
        left = self._unary()
        if self._text not in _RELATIONS:
            return left
        sign, at = self._text, self._take()
        relation = Relation(at, sign, left, self._unary())
        if self._text in _RELATIONS:
            self._fail("comparisons cannot be chained; join two with `&&`")
        return relation

    def _unary(self) -> Expression:
        if self._text != "!":
            return self._postfix()
        at = self._take()
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._fail(f"nested more than {MAX_NESTING} deep")
        operand = self._unary()
        self._depth -= 1
        return Not(at, operand)

    def _postfix(self) -> Expression:
        found = self._primary()
        while self._text in {".", "("}:
            if self._text == "(":
                found = self._call_of(found)
            else:
                self._take()
                if self._kind != "word" or "." in self._text:
                    self._fail("a method call must follow `.`")
                at, method = self._at, self._text
                self._take()
                found = Call(at, found, method, self._arguments())
        return found

    def _call_of(self, name: Expression) -> Call:
        """Split `label.tags.exists` into the receiver and its method."""
        if not isinstance(name, Name) or "." not in name.name:
            raise SyntaxFault(name.at, "there are no functions, only methods, such as `label.tags.size()`")
        receiver, _, method = name.name.rpartition(".")
        return Call(name.at + len(receiver) + 1, Name(name.at, receiver), method, self._arguments())

    def _arguments(self) -> tuple[Expression, ...]:
        self._expect("(")
        return self._items(")")

    def _primary(self) -> Expression:
        at, kind, text = self._at, self._kind, self._text
        if kind == "number":
            self._take()
            return Literal(at, float(text) if "." in text else int(text))
        if kind == "string":
            self._take()
            return Literal(at, re.sub(r"\\(.)", r"\1", text[1:-1]))
        if kind == "word" and text != "in":
            self._take()
            return Literal(at, text == "true") if text in {"true", "false"} else Name(at, text)
        if text == "(":
            self._take()
            found = self._either()
            self._expect(")")
            return found
        if text == "[":
            self._take()
            return ListOf(at, self._items("]"))
        self._fail("the condition ends too early" if kind == "end" else f"`{text}` cannot stand here")

    def _items(self, closing: str) -> tuple[Expression, ...]:
        items: list[Expression] = []
        while self._text != closing:
            if items:
                self._expect(",")
            items.append(self._either())
        self._take()
        return tuple(items)

    def _expect(self, sign: str) -> None:
        if self._text != sign:
            self._fail(f"`{sign}` is missing here")
        self._take()

    def _take(self) -> int:
        at = self._at
        self._advance()
        return at

    def _advance(self) -> None:
        match = _TOKEN.match(self._source, self._offset)
        if match is None or match.lastgroup is None:
            at = self._offset + len(self._source[self._offset :]) - len(self._source[self._offset :].lstrip())
            raise SyntaxFault(at, f"`{self._source[at]}` is not part of the language of conditions")
        self._kind = match.lastgroup
        self._text = match.group(match.lastgroup)
        self._at = match.start(match.lastgroup)
        self._offset = match.end()

    def _fail(self, message: str) -> NoReturn:
        raise SyntaxFault(self._at, message)

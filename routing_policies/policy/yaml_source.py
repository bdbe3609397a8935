"""From YAML text to plain values, with the place of each one.

Policies and settings are read by it. It reads the YAML 1.2 core schema: `no` is text, `010` is not eight, a key is
always text. A policy that begins with `---` must end with `...`, so that none passes for whole that was cut off where
a section ends. It refuses what neither needs and a reader cannot see through: anchors, aliases, tags, several
documents, a key twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import yaml

from routing_policies.policy.errors import PolicyError

MAX_BYTES = 256 << 10
MAX_DEPTH = 16

Path = tuple[str | int, ...]
Kind = Literal["policy", "settings"]

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?\Z")
_WORDS: Mapping[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
_NO_MAPPING: Mapping[Kind, str] = {
    "policy": "a policy is a mapping that begins with `apiVersion: tidegate/v1`",
    "settings": "settings are a mapping of fields, such as `listen: {port: 8080}`",
}
_TAGS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:str"})


class _Mark(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Source:
    """A document that was read.

    Attributes:
        name: What to call it in messages.
        text: The document.
        value: Mappings, lists and scalars.
        values: Path of a value to its place.
        keys: Path of a value to the place of its key.
        bracketed: Whether it says where it begins and ends, by `---` and `...`.
    """

    name: str
    text: str
    value: Any
    values: Mapping[Path, Place]
    keys: Mapping[Path, Place]
    bracketed: bool = False

    def error(self, path: Path, message: str, *, at_key: bool = False) -> PolicyError:
        """Make an error that points at a path, or at the nearest one around it that exists."""
        places = self.keys if at_key else self.values
        while path and path not in places:
            path = path[:-1]
        place = places.get(path, Place(1, 1))
        return PolicyError(self.name, place.line, place.column, message)

    def error_within(self, path: Path, text: str, offset: int, message: str) -> PolicyError:
        """Make an error that points at a character of a scalar's text, where that text stands verbatim on its line."""
        place = self.values.get(path, Place(1, 1))
        line = self.text.splitlines()[place.line - 1]
        start = line.find(text, place.column - 1)
        column = start + 1 + offset if start >= 0 else place.column
        return PolicyError(self.name, place.line, column, message)


def read(text: str, name: str, kind: Kind = "policy") -> Source:
    """Read a document.

    Args:
        text: Of the document.
        name: What to call it in messages.
        kind: An empty policy is refused; empty settings say nothing, which is allowed.

    Raises:
        PolicyError: It is too large, is not YAML, or holds something that such a document may not.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise PolicyError(name, 1, 1, f"the {kind} file is larger than {MAX_BYTES} bytes")
    reader = _Reader(name, kind)
    try:
        root = reader.compose(text)
    except yaml.MarkedYAMLError as exc:
        place = _place(exc.problem_mark or exc.context_mark)
        problem = ", ".join(part for part in (exc.context, exc.problem) if part)
        raise PolicyError(name, place.line, place.column, f"not YAML: {problem}") from None
    except yaml.reader.ReaderError as exc:
        before = text[: exc.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise PolicyError(name, line, column, f"the character U+{exc.character:04X} is not allowed") from None
    if root is None and kind == "settings":
        return Source(name, text, {}, {}, {})
    if not isinstance(root, yaml.MappingNode):
        raise PolicyError(name, 1, 1, _NO_MAPPING[kind])
    value = reader.take(root, ())
    return Source(name, text, value, reader.values, reader.keys, reader.bracketed)


@dataclass(slots=True)
class _Reader:
    name: str
    kind: Kind
    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)
    bracketed: bool = False

    def compose(self, text: str) -> yaml.Node | None:
        """Compose the one document, after a look at its events: composing would follow aliases and recurse."""
        depth = 0
        documents = 0
        for event in yaml.parse(text, Loader=yaml.BaseLoader):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                self.bracketed = bool(event.explicit) and documents == 1  # more than one are refused below
            elif (
                isinstance(event, yaml.DocumentEndEvent)
                and self.bracketed
                and not event.explicit
                and self.kind == "policy"
            ):
                message = "it begins with `---` and does not end with `...`: it was cut off, or that line is missing"
                raise self._refuse(event.end_mark, message)
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise self._refuse(event.start_mark, "anchors and aliases are not allowed; write the value out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise self._refuse(event.start_mark, f"nested more than {MAX_DEPTH} deep")
        return yaml.compose(text, Loader=yaml.BaseLoader)

    def take(self, node: yaml.Node, path: Path) -> Any:
        """Turn a node into values and note the places."""
        if node.tag not in _TAGS:
            raise self._refuse(node.start_mark, f"the tag {node.tag} is not allowed")
        self.values[path] = _place(node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.take(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode), "the third kind of node"
        return node.value if node.style is not None else self._plain(node)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._refuse(key.start_mark, "a key must be text")
            if key.value in found:
                raise self._refuse(key.start_mark, f"`{key.value}` stands here twice")
            self.keys[(*path, key.value)] = _place(key.start_mark)
            found[key.value] = self.take(value, (*path, key.value))
        return found

    def _plain(self, node: yaml.ScalarNode) -> str | int | float | bool | None:
        text: str = node.value
        if text in _WORDS:
            return _WORDS[text]
        if _INT.match(text):
            return self._number(node, int(text)) if len(text) < 18 else self._number(node, math.inf)
        if any(c.isdigit() for c in text) and _FLOAT.match(text):
            return self._number(node, float(text))
        return text

    def _number(self, node: yaml.Node, number: float) -> float:
        if math.isinf(number):
            raise self._refuse(node.start_mark, "the number is too large")
        return number

    def _refuse(self, mark: _Mark | None, message: str) -> PolicyError:
        place = _place(mark)
        return PolicyError(self.name, place.line, place.column, message)


def _place(mark: _Mark | None) -> Place:
    return Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)

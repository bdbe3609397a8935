"""Forms as llguidance takes them. JSON is written in one way, as `json.dumps` writes it on one line.

White space that a schema leaves open is where small models lose themselves: they go on with it until the end.
Syntax: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llguidance import LLMatcher

from inference_protocol.structure import Structure, StructureKind

_ONE_LINE: Mapping[str, Any] = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


@dataclass(frozen=True, slots=True)
class Grammar:
    """A form to be compiled.

    Attributes:
        text: In llguidance's syntax.
        field: Where the request holds what it was made from.
    """

    text: str
    field: str


def grammar_of(structure: Structure) -> Grammar:
    """Return the grammar of a form that a request asks for."""
    match structure.kind:
        case StructureKind.JSON_SCHEMA:
            text = LLMatcher.grammar_from_json_schema(_on_one_line(structure.content))
        case StructureKind.REGEX:
            text = LLMatcher.grammar_from_regex(structure.content)
        case StructureKind.CHOICE:
            text = "start: " + " | ".join(map(literal, structure.content))
    return Grammar(text, structure.field)


def literal(text: str) -> str:
    """Return the grammar of exactly this text, which is not empty."""
    return json.dumps(text, ensure_ascii=False)


def json_value(schema: Mapping[str, Any]) -> str:
    """Return the grammar of a JSON value that a schema allows, to stand inside another grammar."""
    return "%json " + json.dumps(_on_one_line(schema))


def _on_one_line(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "x-guidance": _ONE_LINE}

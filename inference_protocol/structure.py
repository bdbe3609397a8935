"""What form an answer must have: `response_format` as OpenAI writes it, `structured_outputs` as vLLM does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from inference_protocol import fields
from inference_protocol.errors import InvalidField

STRUCTURED_OUTPUTS = "structured_outputs"
# vLLM's names of the same up to 0.11. Who sends them wants a form, so they are never passed over.
OLDER_NAMES = ("guided_json", "guided_regex", "guided_choice", "guided_grammar")
MAX_REGEX_CHARS = 16_384
MAX_CHOICES = 1024


class StructureKind(StrEnum):
    """What the form is told by."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class Structure:
    """The form of an answer.

    Attributes:
        content: A JSON schema, a regular expression, or a tuple of strings.
        field: Where the request holds it, for errors.
    """

    kind: StructureKind
    content: Any
    field: str


def asks_for_structure(tree: Mapping[str, Any]) -> bool:
    """Whether a body wants another form than text, be it written well or not."""
    response_format = tree.get("response_format")
    if response_format is not None and not (
        isinstance(response_format, dict) and response_format.get("type") == "text"
    ):
        return True
    return any(tree.get(name) is not None for name in (STRUCTURED_OUTPUTS, *OLDER_NAMES))


def read_structure(tree: Mapping[str, Any]) -> Structure | None:
    """Return the form that a body asks for, or `None` where any text will do.

    Raises:
        InvalidField: It is not written as it must be, is told twice, or is of a kind that we do not know.
    """
    for name in OLDER_NAMES:
        if tree.get(name) is not None:
            newer = name.removeprefix("guided_")
            raise InvalidField(f"Write `{name}` as `{STRUCTURED_OUTPUTS}.{newer}`.", param=name)
    formatted = _response_format(tree.get("response_format"))
    structured = _structured_outputs(tree.get(STRUCTURED_OUTPUTS))
    if formatted is not None and structured is not None:
        raise InvalidField(f"Give `response_format` or `{STRUCTURED_OUTPUTS}`, not both.", param=STRUCTURED_OUTPUTS)
    return formatted or structured


def _response_format(value: Any) -> Structure | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidField("`response_format` must be an object.", param="response_format")
    match value.get("type"):
        case "text":
            return None
        case "json_object":
            return _any_object("response_format")
        case "json_schema":
            return _named_schema(value.get("json_schema"))
    raise InvalidField(
        "`response_format.type` must be one of text, json_object, json_schema.", param="response_format.type"
    )


def _named_schema(value: Any) -> Structure:
    at = "response_format.json_schema"
    if not isinstance(value, dict):
        raise InvalidField(f"`{at}` must be an object with a `schema`.", param=at)
    fields.boolean(value, "strict", at=f"{at}.")
    return _schema(value.get("schema"), f"{at}.schema")


def _structured_outputs(value: Any) -> Structure | None:
    if value is None:
        return None
    at = STRUCTURED_OUTPUTS
    given = [key for key, found in value.items() if found is not None] if isinstance(value, dict) else []
    if len(given) != 1 or given[0] not in {"json", "json_object", "regex", "choice"}:
        raise InvalidField(f"`{at}` must hold one of json, json_object, regex, choice.", param=at)
    [key] = given
    content, at = value[key], f"{at}.{key}"
    match key:
        case "json":
            return _schema(content, at)
        case "json_object":
            return _any_object(at) if fields.boolean(value, key, at=f"{STRUCTURED_OUTPUTS}.") else None
        case "regex":
            if not isinstance(content, str) or not 0 < len(content) <= MAX_REGEX_CHARS:
                raise InvalidField(f"`{at}` must be a string of 1 to {MAX_REGEX_CHARS} characters.", param=at)
            return Structure(StructureKind.REGEX, content, at)
    is_list = isinstance(content, list) and 0 < len(content) <= MAX_CHOICES
    if not is_list or not all(isinstance(each, str) and each for each in content):
        raise InvalidField(f"`{at}` must be a list of 1 to {MAX_CHOICES} non-empty strings.", param=at)
    return Structure(StructureKind.CHOICE, tuple(content), at)


def _schema(value: Any, at: str) -> Structure:
    if not isinstance(value, dict):
        raise InvalidField(f"`{at}` must be a JSON schema, as an object.", param=at)
    return Structure(StructureKind.JSON_SCHEMA, value, at)


def _any_object(at: str) -> Structure:
    return Structure(StructureKind.JSON_SCHEMA, {"type": "object"}, at)

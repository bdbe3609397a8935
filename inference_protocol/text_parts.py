"""The one enumerator of a request's text: scanner, size and taint all read a request through it.

Every string is yielded, also in fields we have never heard of and also object keys, because an unknown field can carry
a person's data as well as a known one. Only values that can be nothing but a keyword are left out, and only where they
really are one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class UninspectableCause(StrEnum):
    """Why a part of a request could not be read as text."""

    IMAGE = "image"
    AUDIO = "audio"
    BLOB = "blob"
    TRUNCATED = "truncated"
    DETECTOR_ERROR = "detector_error"
    UNDECODABLE = "undecodable"


@dataclass(frozen=True, slots=True)
class Uninspectable:
    """A part that no text scanner can vouch for."""

    cause: UninspectableCause


@dataclass(frozen=True, slots=True)
class TextPart:
    """One string of a request.

    Attributes:
        path: Where it stands, such as `messages[2].content`.
        role: The role of the message it belongs to, or `None` outside messages.
        text: The string, or why it cannot be read.
    """

    path: str
    role: str | None
    text: str | Uninspectable


# A key here is skipped only while its value is one of the words listed: `type: "jane@example.com"` is text.
_ENUM_VALUES: Mapping[str, frozenset[str]] = {
    "role": frozenset({"system", "developer", "user", "assistant", "tool", "function"}),
    "type": frozenset(
        "text image_url input_audio file refusal function json_schema json_object regex object string number integer "
        "boolean array null input_text output_text".split()
    ),
    "tool_choice": frozenset({"auto", "none", "required"}),
    "detail": frozenset({"auto", "low", "high"}),
    "format": frozenset({"wav", "mp3", "flac", "opus", "pcm16"}),
    "encoding_format": frozenset({"float", "base64"}),
    "service_tier": frozenset({"auto", "default", "flex", "priority"}),
    "reasoning_effort": frozenset({"none", "minimal", "low", "medium", "high", "xhigh"}),
}
_KNOWN_KEYS = frozenset(
    "arguments audio content data description detail encoding_format enum file file_data file_id filename format "
    "frequency_penalty function function_call functions id image_url include_usage input input_audio items "
    "json_schema logit_bias logprobs max_completion_tokens max_tokens messages metadata min_p modalities model n "
    "name parallel_tool_calls parameters presence_penalty prompt properties reasoning_effort refusal "
    "repetition_penalty required response_format role schema seed service_tier stop store stream stream_options "
    "strict suffix temperature text tool_call_id tool_calls tool_choice tools top_k top_logprobs top_p type url "
    "user".split()
)
_DATA_URL = re.compile(r"data:([a-z]+)/[^,;]{0,80}[;,]", re.IGNORECASE)
_BLOB = re.compile(r"[A-Za-z0-9+/_-]{256,}={0,2}\Z")
_LONGEST_WORD_SCANNED_FOR_BLOB = 1 << 20
_NUMBER_WORTH_READING = 1_000_000  # shorter ones can be no card, phone or national id


def text_parts(tree: Mapping[str, Any]) -> Iterator[TextPart]:
    """Yield every string of a parsed request body, depth first in document order."""
    yield from _walk(tree, "", None)


def _walk(node: Any, path: str, role: str | None) -> Iterator[TextPart]:
    if isinstance(node, str):
        yield from _string(node, path, role)
    elif isinstance(node, Mapping):
        found = node.get("role")
        inner = found if isinstance(found, str) else role
        for key, value in node.items():
            below = f"{path}.{key}" if path else key
            if key not in _KNOWN_KEYS:
                yield TextPart(f"{path}#keys" if path else "#keys", inner, key)
            if isinstance(value, str) and value in _ENUM_VALUES.get(key, ()):
                continue
            if key == "input_audio":
                yield TextPart(below, inner, Uninspectable(UninspectableCause.AUDIO))
                yield from _walk_but(value, "data", below, inner)
            elif key == "image_url" and isinstance(value, (str, dict)):
                yield TextPart(below, inner, Uninspectable(UninspectableCause.IMAGE))
                yield from _walk(value, below, inner)
            elif key == "arguments" and isinstance(value, str):
                yield from _arguments(value, below, inner)
            else:
                yield from _walk(value, below, inner)
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _walk(item, f"{path}[{index}]", role)
    elif isinstance(node, (int, float)) and not isinstance(node, bool) and abs(node) >= _NUMBER_WORTH_READING:
        yield TextPart(path, role, str(node))


def _walk_but(node: Any, left_out: str, path: str, role: str | None) -> Iterator[TextPart]:
    if isinstance(node, Mapping):
        node = {key: value for key, value in node.items() if key != left_out}
    yield from _walk(node, path, role)


def _string(text: str, path: str, role: str | None) -> Iterator[TextPart]:
    data_url = _DATA_URL.match(text)
    if data_url is not None:
        yield TextPart(path, role, Uninspectable(_media_cause(data_url.group(1).lower())))
    elif len(text) >= 256 and len(text) <= _LONGEST_WORD_SCANNED_FOR_BLOB and _BLOB.match(text):
        yield TextPart(path, role, Uninspectable(UninspectableCause.BLOB))
        yield TextPart(path, role, text)
    elif _has_lone_surrogate(text):
        yield TextPart(path, role, Uninspectable(UninspectableCause.UNDECODABLE))
    else:
        yield TextPart(path, role, text)


def _arguments(text: str, path: str, role: str | None) -> Iterator[TextPart]:
    """Tool-call arguments are JSON inside a string: read both layers, since escapes of the inner one hide digits."""
    yield from _string(text, path, role)
    if "\\" in text:
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            return
        yield from _walk(inner, f"{path}(json)", role)


def _media_cause(kind: str) -> UninspectableCause:
    return {"image": UninspectableCause.IMAGE, "audio": UninspectableCause.AUDIO}.get(kind, UninspectableCause.BLOB)


def _has_lone_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False

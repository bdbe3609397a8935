"""The one enumerator of a request's text: scanner, size and taint all read a request through it.

Every string is yielded, also in fields we have never heard of and also object keys, because an unknown field can carry
a person's data as well as a known one. Only values that can be nothing but a keyword are left out, and only where they
really are one. JSON inside a string, such as a tool call's arguments, stays one string: the scanner undoes its escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from inference_protocol.conversation import ROLES
from inference_protocol.strings import has_lone_surrogate, is_plain_name


class UninspectableCause(StrEnum):
    """Why a part of a request could not be read as text, or (`history`) why its earlier labels are not known."""

    IMAGE = "image"
    AUDIO = "audio"
    BLOB = "blob"
    DETECTOR_ERROR = "detector_error"
    UNDECODABLE = "undecodable"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Uninspectable:
    """A part that no text scanner can vouch for."""

    cause: UninspectableCause


@dataclass(frozen=True, slots=True)
class TextPart:
    """One string of a request.

    Attributes:
        path: Where it stands, such as `messages[2].content`. Fit to be recorded: a key that is no plain name may be
            somebody's data, so the path shows its position instead, such as `metadata.*0`.
        role: The role of the message it belongs to, or `None` outside messages.
        text: The string, or why it cannot be read.
        field: The key it is the value of, as it came (for a list's items, the list's key); not fit to be recorded.
    """

    path: str
    role: str | None
    text: str | Uninspectable
    field: str | None = None


# A key here is skipped only while its value is one of the words listed: `type: "jane@example.com"` is text.
_ENUM_VALUES: Mapping[str, frozenset[str]] = {
    "role": ROLES,
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
# What stands under these keys is content, or points at content, that is no text; strings beside it still are.
_CONTENT_ELSEWHERE: Mapping[str, UninspectableCause] = {
    "image_url": UninspectableCause.IMAGE,
    "input_audio": UninspectableCause.AUDIO,
    "file_id": UninspectableCause.BLOB,
}
_DATA_URL = re.compile(r"data:([a-z]+)/[^,\s]{0,200},", re.IGNORECASE)
_SHORTEST_BLOB = 256
# Letters and digits mixed: a long word, a sequence of bases or a long number is text.
_BLOB_HEAD = re.compile(
    rf"(?=[A-Za-z+/_-]{{0,{_SHORTEST_BLOB}}}[0-9])(?=[0-9+/_-]{{0,{_SHORTEST_BLOB}}}[A-Za-z])"
    rf"[A-Za-z0-9+/_-]{{{_SHORTEST_BLOB}}}"
)
_NUMBER_WORTH_READING = 1_000_000  # shorter ones can be no card, phone or national id


def text_parts(tree: Mapping[str, Any]) -> Iterator[TextPart]:
    """Yield every string of a parsed request body, depth first in document order."""
    found: list[TextPart] = []
    _read_object(tree, "", None, found)
    return iter(found)


def _read(node: Any, path: str, role: str | None, field: str | None, found: list[TextPart]) -> None:
    if isinstance(node, str):
        _read_string(node, path, role, field, found)
    elif isinstance(node, dict):
        _read_object(node, path, role, found)
    elif isinstance(node, list):
        for index, item in enumerate(node):
            _read(item, f"{path}[{index}]", role, field, found)
    elif isinstance(node, (int, float)) and not isinstance(node, bool) and abs(node) >= _NUMBER_WORTH_READING:
        found.append(TextPart(path, role, str(node), field))


def _read_object(node: Mapping[str, Any], path: str, role: str | None, found: list[TextPart]) -> None:
    own_role = node.get("role")
    role = own_role if isinstance(own_role, str) else role
    for index, (key, value) in enumerate(node.items()):
        known = key in _KNOWN_KEYS
        if not known:
            _read_string(key, f"{path}#keys", role, None, found)
        shown = key if known or is_plain_name(key) else f"*{index}"
        below = f"{path}.{shown}" if path else shown
        if key in _CONTENT_ELSEWHERE and isinstance(value, (str, dict)):
            found.append(TextPart(below, role, Uninspectable(_CONTENT_ELSEWHERE[key]), key))
            _read_beside(value, below, role, key, found)
        elif not (isinstance(value, str) and value in _ENUM_VALUES.get(key, ())):
            _read(value, below, role, key, found)


def _read_beside(value: Any, path: str, role: str | None, field: str, found: list[TextPart]) -> None:
    """Read the strings that stand beside content which is no text; its own cause is known already."""
    held = {key: inner for key, inner in value.items() if key != "data"} if isinstance(value, dict) else value
    beside: list[TextPart] = []
    _read(held, path, role, field, beside)
    found.extend(part for part in beside if isinstance(part.text, str))


def _read_string(text: str, path: str, role: str | None, field: str | None, found: list[TextPart]) -> None:
    if has_lone_surrogate(text):
        found.append(TextPart(path, role, Uninspectable(UninspectableCause.UNDECODABLE), field))
        return
    data_url = _DATA_URL.match(text)
    if data_url is not None:
        found.append(TextPart(path, role, Uninspectable(_media_cause(data_url[1].lower())), field))
        if " " not in text:
            return
    elif len(text) >= _SHORTEST_BLOB and _BLOB_HEAD.match(text) and " " not in text:
        found.append(TextPart(path, role, Uninspectable(UninspectableCause.BLOB), field))
    found.append(TextPart(path, role, text, field))


def _media_cause(kind: str) -> UninspectableCause:
    return {"image": UninspectableCause.IMAGE, "audio": UninspectableCause.AUDIO}.get(kind, UninspectableCause.BLOB)

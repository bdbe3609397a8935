"""The one enumerator of a request's text: scanner, size and taint all read a request through it.

Every string is yielded, also in fields we have never heard of and also object keys, because an unknown field can carry
a person's data as well as a known one. Only values that can be nothing but a keyword are left out, and only where they
really are one. JSON inside a string, such as a tool call's arguments, stays one string: the scanner undoes its escapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from inference_protocol.conversation import ROLES
from inference_protocol.encoded_content import data_url_kinds, holds_blob, readable_prefix
from inference_protocol.strings import has_lone_surrogate, is_plain_name


class UninspectableCause(StrEnum):
    """Why a part of a request could not be read as text, or (`history`) why its earlier labels are not known."""

    IMAGE = "image"
    AUDIO = "audio"
    BLOB = "blob"
    TRUNCATED = "truncated"
    DETECTOR_ERROR = "detector_error"
    UNDECODABLE = "undecodable"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Uninspectable:
    """A part that no text scanner can vouch for.

    Attributes:
        cause: Why not.
        content: The string or the JSON value that could not be read, for whoever has other means.
    """

    cause: UninspectableCause
    content: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TextPart:
    """One string of a request.

    Attributes:
        path: Where it stands, such as `messages[2].content`. Fit to be recorded: a key that is no plain name may be
            somebody's data, so the path shows its position instead, such as `metadata.*0`.
        role: The role of the message it belongs to, or `None` outside messages.
        text: The string, or why it cannot be read.
        field: The key it is the value of, as it came (for a list's items, the list's key), or the name that stands
            beside a `value`; not fit to be recorded.
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
    "arguments audio best_of choice content data description detail echo encoding_format enum file file_data "
    "file_id filename format frequency_penalty function function_call functions id image_url include_usage input "
    "input_audio items json json_object json_schema logit_bias logprobs max_completion_tokens max_tokens messages "
    "metadata min_p modalities model n name parallel_tool_calls parameters presence_penalty prompt properties "
    "reasoning_effort refusal regex repetition_penalty required response_format role schema seed service_tier "
    "stop store stream stream_options strict structured_outputs suffix temperature text tool_call_id tool_calls "
    "tool_choice tools top_k top_logprobs top_p type url user".split()
)
# What stands under these keys is content, or points at content, that is no text; strings beside it still are.
_CONTENT_ELSEWHERE: Mapping[str, UninspectableCause] = {
    **dict.fromkeys(("image_url", "input_image", "image_embeds"), UninspectableCause.IMAGE),
    **dict.fromkeys(("input_audio", "audio_url", "audio_embeds"), UninspectableCause.AUDIO),
    **dict.fromkeys(
        "video_url file_id file_ids file_data file_url prompt_token_ids prompt_embeds previous_response_id "
        "vector_store_ids".split(),
        UninspectableCause.BLOB,
    ),
}
# The same, of a message only: `audio` beside `messages` says how to speak.
_MESSAGE_ELSEWHERE: Mapping[str, UninspectableCause] = {
    "image": UninspectableCause.IMAGE,
    "images": UninspectableCause.IMAGE,
    "audio": UninspectableCause.AUDIO,
    "video": UninspectableCause.BLOB,
    "videos": UninspectableCause.BLOB,
}
_TEXT_PARTS = frozenset({"text", "refusal"})
# One value is named by another: `{"name": "ssn", "value": "..."}`.
_PAIR_NAMES = ("name", "key", "field", "label", "question")
_PAIR_VALUES = frozenset({"value", "values", "answer"})
_TOKEN_LISTS = frozenset({"prompt", "input"})  # numbers here are tokens, which is text that only its tokenizer can read
_SHORTEST_NUMBERS_BLOB = 256
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
        if _numbers_in(node) >= (1 if field in _TOKEN_LISTS else _SHORTEST_NUMBERS_BLOB):
            found.append(TextPart(path, role, Uninspectable(UninspectableCause.BLOB), field))
        for index, item in enumerate(node):
            _read(item, f"{path}[{index}]", role, field, found)
    elif _is_number(node) and abs(node) >= _NUMBER_WORTH_READING:
        whole = isinstance(node, float) and node.is_integer()
        found.append(TextPart(path, role, str(int(node) if whole else node), field))


def _is_number(node: Any) -> bool:
    return isinstance(node, (int, float)) and not isinstance(node, bool)


def _numbers_in(node: list[Any]) -> int:
    return sum(_numbers_in(item) if isinstance(item, list) else _is_number(item) for item in node)


def _read_object(node: Mapping[str, Any], path: str, role: str | None, found: list[TextPart]) -> None:
    own_role = node.get("role")
    is_message = isinstance(own_role, str)
    role = own_role if is_message else role
    named = next((node[name] for name in _PAIR_NAMES if isinstance(node.get(name), str)), None)
    for index, (key, value) in enumerate(node.items()):
        known = key in _KNOWN_KEYS
        if not known:
            _read_string(key, f"{path}#keys", role, None, found)
        shown = key if known or is_plain_name(key) else f"*{index}"
        below = f"{path}.{shown}" if path else shown
        cause = _CONTENT_ELSEWHERE.get(key) or (_MESSAGE_ELSEWHERE.get(key) if is_message else None)
        if cause is not None and value is not None:
            _read_elsewhere(value, cause, below, role, key, found)
        elif is_message and key == "content" and isinstance(value, list):
            for at, part in enumerate(value):
                _read_content_part(part, f"{below}[{at}]", role, found)
        elif not (isinstance(value, str) and value in _ENUM_VALUES.get(key, ())):
            _read(value, below, role, named if named and key in _PAIR_VALUES else key, found)


def _read_content_part(part: Any, path: str, role: str | None, found: list[TextPart]) -> None:
    """Read a part of a message; only those types are text that are known to be."""
    kind = str(part.get("type")) if isinstance(part, dict) else "text"
    if kind in _TEXT_PARTS:
        _read(part, path, role, "content", found)
    else:
        _read_elsewhere(part, _cause_of(kind), path, role, "content", found)


def _read_elsewhere(
    value: Any, cause: UninspectableCause, path: str, role: str | None, field: str, found: list[TextPart]
) -> None:
    """Name what cannot be read, once for each cause, then read the strings beside it. A blob is the content itself."""
    inside: list[TextPart] = []
    _read(value, path, role, field, inside)
    causes = {part.text.cause for part in inside if isinstance(part.text, Uninspectable)}
    found.extend(
        TextPart(path, role, Uninspectable(each, {field: value}), field)
        for each in (cause, *sorted(causes - {cause, UninspectableCause.BLOB}))
    )
    found.extend(part for part in inside if isinstance(part.text, str))


def _read_string(text: str, path: str, role: str | None, field: str | None, found: list[TextPart]) -> None:
    if has_lone_surrogate(text):
        found.append(TextPart(path, role, Uninspectable(UninspectableCause.UNDECODABLE), field))
        return
    causes = {_cause_of(kind) for kind in data_url_kinds(text)}
    if not causes and holds_blob(text):
        causes = {UninspectableCause.BLOB}
    found.extend(TextPart(path, role, Uninspectable(cause, text), field) for cause in sorted(causes))
    found.append(TextPart(path, role, readable_prefix(text) if causes else text, field))


def _cause_of(kind: str) -> UninspectableCause:
    """Return the cause by the type of a part or of a data URL, such as `image_url` or `audio`."""
    if "image" in kind:
        return UninspectableCause.IMAGE
    return UninspectableCause.AUDIO if "audio" in kind else UninspectableCause.BLOB

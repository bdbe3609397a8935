from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.text_parts import (
    _ENUM_VALUES,
    _KNOWN_KEYS,
    TextPart,
    Uninspectable,
    UninspectableCause,
    text_parts,
)

KEYS = [*sorted(_KNOWN_KEYS), "x", "jane@corp.com", "", "a.b"]
texts = st.text(max_size=8) | st.sampled_from([word for words in _ENUM_VALUES.values() for word in sorted(words)])
trees = st.recursive(
    texts | st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
)
CONTENT_ELSEWHERE = {"image_url", "input_audio", "file_id"}


def strings_that_must_be_read(node: Any, key: str | None = None, inside: bool = False) -> Iterator[str]:
    """Yield what a scanner has to see: every string, and every key that is no word of the protocol."""
    if isinstance(node, str):
        if node not in _ENUM_VALUES.get(key or "", ()):
            yield node
    elif isinstance(node, list):
        for item in node:
            yield from strings_that_must_be_read(item, None, inside)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name not in _KNOWN_KEYS:
                yield name
            if inside and name == "data":
                continue
            yield from strings_that_must_be_read(value, name, inside or name in CONTENT_ELSEWHERE)


@given(st.dictionaries(st.sampled_from(KEYS), trees, max_size=5))
def test_every_string_of_a_tree_is_read(tree: dict[str, Any]) -> None:
    read = Counter(part.text for part in text_parts(tree) if isinstance(part.text, str))
    missed = Counter(strings_that_must_be_read(tree)) - read
    assert not missed


def read(tree: dict[str, Any]) -> list[tuple[str, str | None, object]]:
    def said(part: TextPart) -> object:
        return part.text.cause if isinstance(part.text, Uninspectable) else part.text

    return [(part.path, part.role, said(part)) for part in text_parts(tree)]


def test_all_roles_turns_and_channels_are_read() -> None:
    tree = {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "a"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "t"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {"properties": {"iban": {"enum": ["e"]}}}}}
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"title": "T"}}},
        "user": "someone",
    }
    assert read(tree) == [
        ("messages[0].content", "system", "s"),
        ("messages[1].content[0].text", "user", "u"),
        ("messages[2].tool_calls[0].id", "assistant", "c1"),
        ("messages[2].tool_calls[0].function.name", "assistant", "f"),
        ("messages[2].tool_calls[0].function.arguments", "assistant", "a"),
        ("messages[3].tool_call_id", "tool", "c1"),
        ("messages[3].content", "tool", "t"),
        ("tools[0].function.name", None, "f"),
        ("tools[0].function.parameters.properties#keys", None, "iban"),
        ("tools[0].function.parameters.properties.iban.enum[0]", None, "e"),
        ("response_format.json_schema.name", None, "n"),
        ("response_format.json_schema.schema#keys", None, "title"),
        ("response_format.json_schema.schema.title", None, "T"),
        ("user", None, "someone"),
    ]


def test_a_value_under_a_keyword_field_is_read_unless_it_is_one_of_its_keywords() -> None:
    assert read({"type": "text", "detail": "jane@corp.com"}) == [("detail", None, "jane@corp.com")]


def test_a_path_shows_the_position_of_a_key_that_is_no_plain_name_and_the_field_keeps_the_key() -> None:
    parts = list(text_parts({"metadata": {"jane@corp.com": "x", "4111111111111111": ["y"], "order_id2": "z"}}))
    assert [part.path for part in parts if part.field is not None] == [
        "metadata.*0",
        "metadata.*1[0]",
        "metadata.order_id2",
    ]
    assert [part.field for part in parts if part.field is not None] == [
        "jane@corp.com",
        "4111111111111111",
        "order_id2",
    ]


def test_long_numbers_are_read_as_text_and_short_ones_and_truth_values_are_not() -> None:
    assert read({"seed": 4111111111111111, "n": 999_999, "stream": True, "x_pin": -78051120}) == [
        ("seed", None, "4111111111111111"),
        ("#keys", None, "x_pin"),
        ("x_pin", None, "-78051120"),
    ]


@pytest.mark.parametrize(
    ("part", "cause"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, UninspectableCause.IMAGE),
        ({"type": "image_url", "image_url": {"url": "https://host/x.png"}}, UninspectableCause.IMAGE),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, UninspectableCause.AUDIO),
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}, UninspectableCause.BLOB),
        ({"type": "file", "file": {"file_id": "file-1"}}, UninspectableCause.BLOB),
        ({"type": "text", "text": "data:audio/wav;base64,AAAA"}, UninspectableCause.AUDIO),
        ({"type": "text", "text": "QUI3" * 300_000}, UninspectableCause.BLOB),
        ({"type": "text", "text": "\ud800"}, UninspectableCause.UNDECODABLE),
        ({"\udfff": 1}, UninspectableCause.UNDECODABLE),
    ],
)
def test_what_is_no_text_is_named_once_with_its_cause(part: dict[str, Any], cause: UninspectableCause) -> None:
    found = [p.text for p in text_parts({"messages": [{"role": "user", "content": [part]}]})]
    assert [text.cause for text in found if isinstance(text, Uninspectable)] == [cause]


@pytest.mark.parametrize("text", ["a" * 300, "ACGT" * 100, "1234567890" * 30, "QUI3 " * 100, "QUI3" * 63])
def test_a_long_word_or_number_is_text_and_no_blob(text: str) -> None:
    assert read({"content": text}) == [("content", None, text)]


def test_text_beside_an_image_is_read() -> None:
    image = {"url": "https://host/jane@corp.com.png", "detail": "of jane@corp.com", "alt": "Jane"}
    texts = [part.text for part in text_parts({"image_url": image})]
    assert texts[1:] == ["https://host/jane@corp.com.png", "of jane@corp.com", "alt", "Jane"]


def test_text_after_something_that_looks_like_a_data_url_is_read_too() -> None:
    text = "data:image/png;base64,AAAA and my number is 123-45-6789"
    assert [said for _, _, said in read({"content": text})] == [UninspectableCause.IMAGE, text]

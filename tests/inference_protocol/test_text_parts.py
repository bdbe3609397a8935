from __future__ import annotations

import base64
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
HARMLESS_TEXT = (
    "The Harbour was closed for 2 days because of strong wind\nThe Ferries resumed on Thursday at 9 and most of them "
    "were an hour late and the Fish Market opened at noon in Hall 4 of the Old Dock where 17 stalls stand since 2019 "
) * 3


def strings_that_must_be_read(node: Any, key: str | None = None) -> Iterator[str]:
    """Yield what a scanner has to see: every string, and every key that is no word of the protocol."""
    if isinstance(node, str):
        if node not in _ENUM_VALUES.get(key or "", ()):
            yield node
    elif isinstance(node, list):
        for item in node:
            yield from strings_that_must_be_read(item)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name not in _KNOWN_KEYS:
                yield name
            yield from strings_that_must_be_read(value, name)


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
        ({"type": "text", "\udfff": 1}, UninspectableCause.UNDECODABLE),
        ({"type": "video_url", "video_url": {"url": "https://host/x.mp4"}}, UninspectableCause.BLOB),
        ({"type": "audio_url", "audio_url": {"url": "https://host/x.mp3"}}, UninspectableCause.AUDIO),
        ({"type": "document", "source": {"type": "url", "url": "https://host/x.pdf"}}, UninspectableCause.BLOB),
        ({"type": "image", "source": {"type": "base64", "data": "QUI3" * 200}}, UninspectableCause.IMAGE),
        ({"type": "image_embeds", "image_embeds": [0.5] * 3000}, UninspectableCause.IMAGE),
        ({"type": "file", "file": {"file_data": "QUI3" * 9}}, UninspectableCause.BLOB),
        ({"type": "image_url", "image_url": ["https://host/x.png"]}, UninspectableCause.IMAGE),
        ({"type": "text", "text": "t", "file_id": ["file-1"]}, UninspectableCause.BLOB),
        ({"type": "text", "text": "t", "image_url": 7}, UninspectableCause.IMAGE),
        ({"type": "hologram", "text": "t"}, UninspectableCause.BLOB),
        ({"type": "text", "text": "t", "x": [0.25] * 3000}, UninspectableCause.BLOB),
        ({"type": "text", "text": "t", "x": [[1, 2]] * 1500}, UninspectableCause.BLOB),
        ({"type": "text", "text": "see  data:image/png;base64,AAAA"}, UninspectableCause.IMAGE),
        ({"type": "text", "text": '<img src="DATA:image/png;base64,AAAA">'}, UninspectableCause.IMAGE),
        ({"type": "text", "text": "data:;base64,AAAA"}, UninspectableCause.BLOB),
    ],
)
def test_what_is_no_text_is_named_once_with_its_cause(part: dict[str, Any], cause: UninspectableCause) -> None:
    found = [p.text for p in text_parts({"messages": [{"role": "user", "content": [part]}]})]
    assert [text.cause for text in found if isinstance(text, Uninspectable)] == [cause]


BYTES = base64.b64encode(bytes(range(256)) * 2).decode()


@pytest.mark.parametrize(
    "text",
    [
        "decode this: " + BYTES,
        "x " * 333 + BYTES[:256] + ", thanks",
        base64.encodebytes(bytes(range(256)) * 2).decode(),
        "\n".join(BYTES[at : at + 76] for at in range(0, len(BYTES), 76)).replace("\n", "\\n"),
        " ".join(BYTES[at : at + 8] for at in range(0, len(BYTES), 8)),
        base64.encodebytes(HARMLESS_TEXT.encode()).decode(),
    ],
)
def test_bytes_written_as_characters_are_found_anywhere_in_a_text_and_the_text_is_read(text: str) -> None:
    assert [said for _, _, said in read({"content": text})] == [UninspectableCause.BLOB, text]


@pytest.mark.parametrize("text", [HARMLESS_TEXT, "one two three 4 five " * 99, "getUserName\nsetUserName\n" * 40])
def test_prose_and_lists_of_words_are_no_blob(text: str) -> None:
    assert read({"content": text}) == [("content", None, text)]


@pytest.mark.parametrize(
    "tree", [{"prompt_token_ids": [1, 2]}, {"prompt": [1, 2]}, {"input": [[1, 2]]}, {"previous_response_id": "r1"}]
)
def test_content_that_stands_elsewhere_or_only_a_tokenizer_can_read_is_a_blob(tree: dict[str, Any]) -> None:
    assert UninspectableCause.BLOB in [said for _, _, said in read(tree)]


@pytest.mark.parametrize("key", ["image", "images", "audio", "video"])
def test_a_message_that_refers_to_media_is_not_inspected(key: str) -> None:
    parts = read({"messages": [{"role": "user", "content": "t", key: {"id": "x"}}]})
    assert [isinstance(said, UninspectableCause) for _, _, said in parts].count(True) == 1
    assert not any(isinstance(said, UninspectableCause) for _, _, said in read({key: {"voice": "x"}}))


def test_a_trusted_kind_of_media_does_not_hide_another_within_it() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://host/x.png"}, "input_audio": {"data": "QUI3" * 100}}
    found = read({"messages": [{"role": "user", "content": [part]}]})
    assert [said for _, _, said in found[:2]] == [UninspectableCause.IMAGE, UninspectableCause.AUDIO]


def test_a_whole_number_is_read_with_all_its_digits() -> None:
    assert [said for _, _, said in read({"user": 4111111111111111.0, "seed": 4.5e6, "n": 4.5e5})] == [
        "4111111111111111",
        "4500000",
    ]


@pytest.mark.parametrize("name", ["name", "key", "label"])
def test_the_name_beside_a_value_is_its_field(name: str) -> None:
    fields = {part.text: part.field for part in text_parts({"x": [{name: "ssn", "value": "536904399", "y": "z"}]})}
    assert fields["536904399"] == "ssn"
    assert fields["z"] == "y"


@pytest.mark.parametrize("text", ["a" * 300, "ACGT" * 100, "1234567890" * 30, "QUI3 " * 100, "QUI3" * 63])
def test_a_long_word_or_number_is_text_and_no_blob(text: str) -> None:
    assert read({"content": text}) == [("content", None, text)]


def test_text_beside_an_image_is_read() -> None:
    image = {"url": "https://host/jane@corp.com.png", "detail": "of jane@corp.com", "alt": "Jane"}
    texts = [part.text for part in text_parts({"image_url": image})]
    assert texts[1:] == ["https://host/jane@corp.com.png", "of jane@corp.com", "alt", "Jane"]


def test_a_data_url_is_read_up_to_the_bytes_that_it_holds() -> None:
    held = {"url": "data:image/jane@corp.com;base64," + "QUI3" * 100, "alt": "data:image/x,card_4111111111111111"}
    texts = [part.text for part in text_parts({"image_url": held})]
    assert texts[1:] == ["data:image/jane@corp.com;base64,", "alt", "data:image/x,card_4111111111111111"]


def test_text_after_something_that_looks_like_a_data_url_is_read_too() -> None:
    text = "data:image/png;base64,AAAA and my number is 123-45-6789"
    assert [said for _, _, said in read({"content": text})] == [UninspectableCause.IMAGE, text]


def test_what_could_not_be_read_is_handed_on_as_it_is() -> None:
    url = "data:image/png;base64," + "iVBORw0K" * 40
    shown = {"type": "image_url", "image_url": {"url": url}}
    found = text_parts({"messages": [{"role": "user", "content": [shown, {"type": "text", "text": f"see {url}"}]}]})
    contents = [part.text.content for part in found if isinstance(part.text, Uninspectable)]
    assert contents == [{"content": shown}, f"see {url}"]

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from inference_protocol.openai_chat import parse_chat
from inference_protocol.request import InferenceRequest
from routing_policies.signals.calibration_samples import SAMPLES, Script
from routing_policies.signals.size import Calibration, Size, characters, exact, measure

UNKNOWN = Calibration.unknown()
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"größe": {}}}}}


class BytePerToken:
    """The most tokens a tokenizer with a byte vocabulary can make."""

    def count(self, text: str) -> int:
        return len(text.encode())


class CharPerToken:
    def count(self, text: str) -> int:
        return len(text)


def request(*contents: Any, **fields: Any) -> InferenceRequest:
    messages = [{"role": "user", "content": content} for content in contents]
    return parse_chat(json.dumps({"model": "m", "messages": messages, **fields}, ensure_ascii=False).encode())


def size(*contents: Any, calibration: Calibration = UNKNOWN, **fields: Any) -> Size:
    found = request(*contents, **fields)
    return measure(found, tuple(found.text_parts()), calibration)


@given(st.lists(st.text(max_size=200), min_size=1, max_size=4))
def test_bounds_hold_for_every_tokenizer_with_a_byte_vocabulary(contents: list[str]) -> None:
    tokens = size(*contents).tokens
    assert tokens.least <= tokens.likely <= tokens.most
    assert tokens.most >= sum(map(BytePerToken().count, contents))
    assert tokens.least <= 1 + sum(len(content.encode()) for content in contents) / 128


def test_only_what_a_template_renders_counts() -> None:
    plain = size("hello").tokens
    assert size("hello", user="x" * 5000, metadata={"note": "y" * 5000}, brand_new=["z " * 5000]).tokens == plain
    assert size("hello", tools=[TOOL]).tokens.likely > plain.likely


def test_tools_are_bounded_also_where_a_template_indents_and_escapes_them() -> None:
    more = size("hello", tools=[TOOL]).tokens.most - size("hello").tokens.most
    assert more >= len(json.dumps([TOOL], indent=4))


def test_tool_calls_and_parts_of_content_count() -> None:
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "a" * 400}}]}
    with_call = parse_chat(json.dumps({"model": "m", "messages": [call]}).encode())
    assert measure(with_call, tuple(with_call.text_parts()), UNKNOWN).tokens.likely > 100
    assert size([{"type": "text", "text": "a" * 400}]).tokens == size("a" * 400).tokens


def test_each_message_adds_what_the_template_puts_around_it() -> None:
    one, two = size("ab").tokens, size("a", "b").tokens
    assert two.likely > one.likely
    assert two.most > one.most


def test_parts_are_counted_by_modality() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    found = size("hello", [{"type": "text", "text": "see"}, image, image, audio])
    assert found.parts == {"text": 2, "image": 2, "audio": 1}
    assert found.tokens.likely > 1000 < found.tokens.most
    assert size("hello", [image]).tokens.most > 16_000


def test_the_body_counts_in_bytes() -> None:
    found = request("é")
    assert measure(found, tuple(found.text_parts()), UNKNOWN).body_bytes == len(found.raw)


def test_an_exact_count_closes_the_interval() -> None:
    found = request("hello there", "é" * 10, tools=[TOOL])
    measured = measure(found, tuple(found.text_parts()), UNKNOWN)
    counted = exact(found, tuple(found.text_parts()), measured, CharPerToken())
    tokens = counted.tokens
    assert tokens.least == tokens.likely == tokens.most
    assert tokens.likely >= len("hello there") + 10 + len(json.dumps([TOOL], ensure_ascii=False))
    assert measured.tokens.least <= tokens.likely <= measured.tokens.most
    assert (counted.body_bytes, counted.parts) == (measured.body_bytes, measured.parts)


@given(st.text())
def test_every_character_belongs_to_one_script(text: str) -> None:
    assert sum(characters(text).values()) == len(text)


@pytest.mark.parametrize(
    ("char", "script"),
    [
        ("a", Script.ASCII),
        ("é", Script.LATIN),
        ("ł", Script.LATIN),
        ("’", Script.LATIN),
        ("ж", Script.GREEK_CYRILLIC),
        ("λ", Script.GREEK_CYRILLIC),
        ("ש", Script.HEBREW_ARABIC),
        ("ع", Script.HEBREW_ARABIC),
        ("क", Script.INDIC_THAI),
        ("ท", Script.INDIC_THAI),
        ("図", Script.HAN_KANA),
        ("の", Script.HAN_KANA),
        ("한", Script.HANGUL),
        ("😀", Script.OTHER),
    ],
)
def test_a_character_is_told_by_its_script(char: str, script: Script) -> None:
    assert characters(char)[script] == 1


def test_calibrating_on_a_tokenizer_finds_what_its_characters_take() -> None:
    assert Calibration.of(CharPerToken()).tokens_per_char == pytest.approx(dict.fromkeys(Script, 1.0))


def test_there_is_a_sample_in_every_script() -> None:
    for script in Script:
        assert all(characters(text)[script] > 0 for text in SAMPLES[script])


@pytest.mark.models
@pytest.mark.parametrize(
    "text",
    [
        "Write a short poem about the sea and the moon, please, in four lines without a rhyme.",
        "Объясни простыми словами, почему небо голубое, а закат красный.",
        "Explique-moi pourquoi le ciel est bleu, s'il te plaît, et où l'été paraît plus court.",
        "为什么天空是蓝色的？请用三句话简短回答，不要使用公式。",
        "하늘이 왜 파란색인지 초등학생에게 설명하듯이 알려 주세요.",
    ],
)
def test_the_likely_number_is_near_the_default_models_own_count(text: str, edge_model: Path) -> None:
    tokenizer = Tokenizer.from_file(str(edge_model / "tokenizer.json"))

    class Counter:
        def count(self, text: str) -> int:
            return len(tokenizer.encode(text, add_special_tokens=False).ids)

    counter = Counter()
    found = request(text)
    measured = measure(found, tuple(found.text_parts()), Calibration.of(counter))
    counted = exact(found, tuple(found.text_parts()), measured, counter).tokens.likely
    assert measured.tokens.least <= counted <= measured.tokens.most
    assert measured.tokens.likely == pytest.approx(counted, rel=0.25)


def test_half_a_surrogate_pair_can_be_counted_wherever_it_stands() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "\ud800", "parameters": {"\udfff": "\udc00"}}}
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "a\ud800"}], "tools": [tool]}).encode()
    found = parse_chat(raw)
    parts = tuple(found.text_parts())
    assert exact(found, parts, measure(found, parts, UNKNOWN), BytePerToken()).tokens.likely > 0

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models

from runtime_server.stop_strings import StopStrings
from runtime_server.text_stream import TextStream
from runtime_server.token_spelling import TokenSpelling, UnsupportedDecoder
from tests.runtime_server.conftest import train_tokenizer

BYTE_LEVEL = train_tokenizer()
SPELLING = TokenSpelling(BYTE_LEVEL, {"type": "ByteLevel"})

# Few letters, so that stop strings often occur, nearly occur and overlap; and characters of 1 to 4 bytes.
texts = st.text(alphabet="ab", max_size=30) | st.text(alphabet="ab\n中😀\u200d", max_size=30) | st.text(max_size=20)
stop_lists = st.lists(
    st.text(alphabet="ab", min_size=1, max_size=5) | st.sampled_from(["😀", "a\nb", "b中"]), max_size=3
)


def one_shot(text: str, stops: Iterable[str]) -> str:
    """What an answer of that text comes to, character by character: the first stop string to be complete ends it."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))]
    return text


def streamed(stream: TextStream, steps: Iterable[Sequence[int]]) -> list[str]:
    parts = []
    for step in steps:
        parts.append(stream.feed(step))
        if stream.stopped:
            return parts
    return [*parts, stream.close()]


@st.composite
def token_splits(draw: st.DrawFn) -> tuple[str, list[list[int]]]:
    """A text, some way to spell it in tokens (not only the encoder's), and some way to cut those into steps."""
    text = draw(texts)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    tokens = [id_ for piece in pieces for id_ in BYTE_LEVEL.encode(piece, add_special_tokens=False).ids]
    steps: list[list[int]] = [[]]
    for token in tokens:
        if draw(st.booleans()):
            steps.append([])
        steps[-1].append(token)
    return text, steps


@given(token_splits(), stop_lists)
def test_any_token_split_of_any_text_with_any_stop_strings_equals_the_one_shot_result(
    split: tuple[str, list[list[int]]], stops: list[str]
) -> None:
    text, steps = split
    assert "".join(streamed(TextStream(SPELLING, stops), steps)) == one_shot(text, stops)


@given(token_splits(), stop_lists)
def test_nothing_is_held_back_but_what_may_still_become_a_stop_string_or_a_character(
    split: tuple[str, list[list[int]]], stops: list[str]
) -> None:
    _, steps = split
    stream = TextStream(SPELLING, stops)
    shown, seen = "", b""
    for step in steps:
        shown += stream.feed(step)
        seen += b"".join(SPELLING[token] for token in step)
        if stream.stopped:
            return
        held = seen.decode(errors="ignore").removeprefix(shown)
        assert held == "" or any(stop.startswith(held) for stop in stops)


@given(st.lists(st.integers(3, BYTE_LEVEL.get_vocab_size() - 1), max_size=30))
def test_tokens_that_are_no_text_decode_as_the_tokenizer_does_but_for_an_unfinished_end(tokens: list[int]) -> None:
    parts = streamed(TextStream(SPELLING, ()), [[token] for token in tokens])
    whole = BYTE_LEVEL.decode(tokens)
    assert "".join(parts) in (whole, whole.removesuffix("\ufffd"))


def test_an_unfinished_character_is_held_back_and_dropped_at_the_end() -> None:
    emoji = BYTE_LEVEL.encode("😀", add_special_tokens=False).ids
    stream = TextStream(SPELLING, ())
    assert [stream.feed([token]) for token in emoji] == ["", "", "", "😀"]
    assert [stream.feed([token]) for token in emoji[:2]] == ["", ""]
    assert stream.close() == ""


def test_special_tokens_and_ids_outside_the_vocabulary_are_no_text() -> None:
    assert TextStream(SPELLING, ()).feed([0, 1, 2, 10_000_000]) == ""


def test_byte_fallback_tokens_are_put_together() -> None:
    vocabulary = {"<unk>": 0, "▁Hi": 1, "▁": 2, "!": 3, **{f"<0x{b:02X}>": 4 + b for b in range(256)}}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False)])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps)
    spelling = TokenSpelling(tokenizer, json.loads(tokenizer.to_str())["decoder"])
    tokens = [1, 2, *(4 + byte for byte in "😀é".encode()), tokenizer.token_to_id("<tool_call>") or 0, 3]
    parts = streamed(TextStream(spelling, ()), [[token] for token in tokens])
    assert "".join(parts) == tokenizer.decode(tokens) == " Hi 😀é<tool_call>!"
    assert "\ufffd" not in "".join(parts)


@pytest.mark.parametrize("decoder", [{"type": "WordPiece", "prefix": "##"}, {}, {"type": "Sequence", "decoders": []}])
def test_a_decoder_that_cannot_be_streamed_is_refused(decoder: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedDecoder):
        TokenSpelling(BYTE_LEVEL, decoder)


def test_the_byte_alphabet_is_the_tokenizers_own() -> None:
    every_byte = bytes(range(256)).decode("latin-1")
    for char in every_byte:
        ids = BYTE_LEVEL.encode(char, add_special_tokens=False).ids
        assert b"".join(SPELLING[id_] for id_ in ids) == char.encode()


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        (["DEFGHIJ"], ["DEF", "G", "HI", "J"], ""),
        (["\n", "Alice:"], ["Alice", "!"], "Alice!"),
        (["END", "THE END"], ["THE", " END", "x"], ""),  # the longest of those complete at the same character
        (["bc", "abcd"], ["abcd"], "a"),  # the one complete first
        (["aab"], ["aa", "ab", "x"], "a"),  # found though its first letter was part of a false start
        (["aabaaac"], ["aabaaabaaac"], "aaba"),
    ],
)
def test_stop_strings_are_found_across_pieces(stops: list[str], pieces: list[str], expected: str) -> None:
    matcher = StopStrings(stops)
    shown = "".join(matcher.feed(piece) for piece in pieces)
    if matcher.matched is None:
        shown += matcher.close()
    assert shown == expected


def test_each_token_is_looked_at_once_however_long_the_answer() -> None:
    looked_up = 0

    class Counting:
        def __getitem__(self, id_: int) -> bytes:
            nonlocal looked_up
            looked_up += 1
            return SPELLING[id_]

    stream = TextStream(Counting(), ["never", "\x00" * 1000])  # type: ignore[arg-type]  # the one method it uses
    ids = BYTE_LEVEL.encode("hello world ", add_special_tokens=False).ids * 500
    for token in ids:
        stream.feed([token])
    assert looked_up == len(ids)

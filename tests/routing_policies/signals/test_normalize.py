from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing_policies.signals.normalize import fold, folding_table, needs_folding, origins

TABLE = folding_table()
ESCAPES = st.sampled_from(
    [
        "&#64;",
        "&commat;",
        "&x;",
        "%40",
        "%d0%b8",
        "%C3",
        "\\x40",
        "\\u{40}",
        "\\n",
        "\\u0040",
        "\\ud83d",
        "\\\\",
        '\\"',
        "\\/",
        "\\x",
        "４",
        "а",
        "é",
        "e\u0301",
        "\u200b",
        "\x00",
        "\x85",
        "中",
    ]
)
texts = st.lists(st.text(max_size=6) | ESCAPES, max_size=8).map("".join)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("４１１１", "4111"),
        ("𝟜𝟙𝟙𝟙 ④①", "4111 41"),
        ("٤١١١ ४१११", "4111 4111"),
        ("jаnе＠cоrp.com", "jane@corp.com"),
        ("ΑΒΕ", "ABE"),
        ("Müller e\u0301té ﬁn", "Muller ete fin"),
        ("41\u200b11\u00ad\u2060\ufe0f", "4111"),
        ("4\x001\x011\x081\x1f1\x7f1\x9f1", "4111111"),
        ("4&#0;1&#x00;1\\u00001%001", "41111"),
        ("a\tb\nc\x0bd\x0ce\rf\x85g", "a\tb\nc\x0bd\x0ce\rf g"),
        ("1‑2–3—4−5", "1-2-3-4-5"),
        ("a\u00a0b\u3000c", "a b c"),
        ("“a” ‘b’", "\"a\" 'b'"),
        ("中文 한국 عربي", "中文 한국 عربي"),
        ('a\\nb\\"c\\/d\\u0040e', 'a b"c/d@e'),
        ('\\\\\\"a', '"a'),
        ("C:\\dir\\x", "C:\\dir\\x"),
        ("\\uFF20", "@"),
        ("a&#64;b&#x2E;c&commat;d&nbsp;e&#0000064f", "a@b.c@d e@f"),
        ("4111%201111%2d%C2%A0%EF%BC%A0%41", "4111 1111- @A"),
        ("\\x40 \\u{40} \\U00000040", "@ @ @"),
        ("&x; &#; %zz 100% %C3 \\xyz &#9999999;", "&x; &#; %zz 100% %C3 \\xyz "),
    ],
)
def test_what_is_written_otherwise_is_read_as_ascii(text: str, folded: str) -> None:
    assert fold(text, TABLE).decode() == folded


@given(texts)
def test_every_byte_of_the_folding_comes_from_a_character_of_the_text_in_order(text: str) -> None:
    folded, origin = fold(text, TABLE), origins(text, TABLE)
    assert len(origin) == len(folded) + 1
    assert list(origin) == sorted(origin)
    assert origin[-1] == len(text)


@given(texts, texts)
def test_a_span_of_the_folding_maps_to_the_text_it_was_folded_from(before: str, after: str) -> None:
    text = f"{before} 4111-X {after}"
    start = len(fold(before + " ", TABLE))
    origin = origins(text, TABLE)
    assert text[origin[start] : origin[start + len("4111-X")]] == "4111-X"


CONTROLS = [chr(code) for code in (*range(0x09), *range(0x0E, 0x20), 0x7F)]


@given(st.text(alphabet=st.characters(max_codepoint=0x7F, exclude_characters=["\\", "&", "%", *CONTROLS])))
def test_plain_ascii_is_its_own_folding(text: str) -> None:
    assert not needs_folding(text)
    assert fold(text, TABLE).decode() == text
    assert list(origins(text, TABLE)) == list(range(len(text) + 1))


@given(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]))
def test_every_compatibility_form_of_ascii_is_folded(char: str) -> None:
    decomposed = unicodedata.normalize("NFKD", char)
    marks = {"Mn", "Me", "Cf"}
    plain = "".join(c for c in decomposed if unicodedata.category(c) not in marks)
    if plain.isascii():
        assert fold(char, TABLE).decode() == plain

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.text_parts import TextPart
from routing_policies.signals.label import NOTED
from routing_policies.signals.scanner import build_scanner
from routing_policies.signals.stretches import LONGEST_STRETCH, Stretch, Stretches
from tests.routing_policies.signals.test_scanner import MUST_BE_FOUND

SCANNER = build_scanner()
WORDS = st.sampled_from(
    [
        "the ",
        "tide",
        " turns, ",
        "4111 1111",
        "-1111 ",
        "jane@corp",
        ".com ",
        "password",
        ": x9!",
        "\n\n",
        "潮が満ちる。",
        "a",
    ]
)


def cut(text: str, *cuts: int) -> list[Stretch]:
    stretches = Stretches()
    ends = [0, *sorted(at % (len(text) + 1) for at in cuts), len(text)]
    return [piece for a, b in pairwise(ends) for piece in stretches.feed(text[a:b])] + list(stretches.rest())


def joined(pieces: list[Stretch]) -> list[tuple[str, bool]]:
    """Stretches, with plain ones beside each other as one: where those are cut means nothing."""
    found: list[tuple[str, bool]] = []
    for text, is_plain, _ in pieces:
        before = found.pop()[0] if is_plain and found and found[-1][1] else ""
        found.append((before + text, is_plain))
    return found


@given(st.lists(WORDS, max_size=40).map("".join), st.lists(st.integers(0, 400), max_size=12))
def test_however_a_text_is_cut_its_stretches_are_the_same(text: str, cuts: list[int]) -> None:
    assert joined(cut(text, *cuts)) == joined(cut(text))
    assert "".join(piece.text for piece in cut(text, *cuts)) == text


@pytest.mark.parametrize(
    "text", ["The tide turns twice a day, and nobody waits.", "Die Flut kehrt zurück.", "潮は満ちて、また引く。"]
)
def test_of_prose_no_more_than_a_word_is_held_back(text: str) -> None:
    stretches = Stretches()
    shown = ""
    for at, char in enumerate(text, 1):
        shown += "".join(piece.text for piece in stretches.feed(char))
        assert len(text[:at]) - len(shown) <= max(map(len, text.split()))
    assert all(piece.is_plain for piece in cut(text))


def test_what_never_ends_is_cut_at_a_bound() -> None:
    for text in ("x" * 50_000, "1, " * 20_000, "9" * 50_000):
        assert max(len(piece.text) for piece in cut(text)) <= 2 * LONGEST_STRETCH


@pytest.mark.parametrize(
    "around", [("", ""), ("And so it was said by them all that ", " and then they all went home again")]
)
@pytest.mark.parametrize(("kind", "tag", "text", "value"), MUST_BE_FOUND)
def test_no_value_is_cut_and_none_is_taken_for_plain(
    kind: str, tag: str, text: str, value: str, around: tuple[str, str]
) -> None:
    del value
    before, found = "", set()
    for stretch in cut(around[0] + text + around[1], *range(400)):
        if not stretch.is_plain:
            scan = SCANNER.scan([TextPart("answer", None, before[-128:] + stretch.text)])
            at = len(before[-128:])
            found |= {f.kind for f in scan.findings if f.end > at and (f.tag not in NOTED or tag in NOTED)}
        before += stretch.text
    assert found == {kind}

"""Telling bytes that were written as characters from text: base64 and its like, in a row or wrapped, and data URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator

SHORTEST_BLOB = 256
# A blob covers at least one whole block, wherever it begins, so that most of a text need not be looked at closely.
_BLOCK = SHORTEST_BLOB // 2
_INVISIBLE = "\u00ad\u200b-\u200d\u2060\ufeff"
_ENCODED = rf"[A-Za-z0-9+/_=\\\s{_INVISIBLE}-]"
_ENCODED_BLOCK = re.compile(f"{_ENCODED}{{{_BLOCK}}}")
_ENCODED_RUN = re.compile(f"{_ENCODED}*")
_GAPS = re.compile(rf"(?:\s|[{_INVISIBLE}]|\\[nrt])+")
_DIGIT = re.compile(r"[0-9]")
_LETTER = re.compile(r"[A-Za-z]")
_HUMP = re.compile(r"[a-z0-9][A-Z]")
_DATA_URL = re.compile(r"""data:(?:([a-z]+)/[^,\s"'<>]{0,200}|[^,\s"'<>]{0,200};base64),""", re.IGNORECASE)
_LONE_DATA_URL = re.compile(r"(data:[^,\s]{0,200};base64,)[A-Za-z0-9+/=_-]*", re.IGNORECASE)


def holds_blob(text: str) -> bool:
    """Whether 256 characters or more of it, white space left out, are encoded bytes.

    In a row they are where letters and digits mix: a long word, a sequence of bases or a long number is text. With
    white space among them they are where digits are common and capitals stand inside words.
    """
    for start in range(0, len(text) - _BLOCK + 1, _BLOCK):
        if _ENCODED_BLOCK.match(text, start) is not None:
            block = text[start : start + _BLOCK]
            spaced = _GAPS.search(block) is not None
            telling = _HUMP if spaced else _LETTER
            if _DIGIT.search(block) and telling.search(block) and _is_encoded(_run_around(text, start)):
                return True
    return False


def _run_around(text: str, start: int) -> str:
    before = _ENCODED_RUN.match(text[max(0, start - SHORTEST_BLOB) : start][::-1])
    after = _ENCODED_RUN.match(text, start, start + 2 * SHORTEST_BLOB)
    return (before[0][::-1] if before else "") + (after[0] if after else "")


def _is_encoded(run: str) -> bool:
    words = _GAPS.split(run)
    if any(len(word) >= SHORTEST_BLOB and _DIGIT.search(word) and _LETTER.search(word) for word in words):
        return True
    length = sum(map(len, words))
    digits, humps = len(_DIGIT.findall(run)), len(_HUMP.findall(run))
    return length >= SHORTEST_BLOB and digits * 32 >= length and humps * 16 >= length


def data_url_kinds(text: str) -> Iterator[str]:
    """Yield the first half of the media type of every data URL in a text, such as `image`; `""` where it has none."""
    if "data:" in text.lower():
        for match in _DATA_URL.finditer(text):
            yield (match[1] or "").lower()


def readable_prefix(text: str) -> str:
    """Return the text itself, or only the head of one that is a base64 data URL from end to end."""
    lone = _LONE_DATA_URL.fullmatch(text)
    return text if lone is None else lone[1]

"""Folding: what detectors read instead of the text, with every offset mapped back to it. The text itself never changes.

Undone are the ways in which one value is written in many: full-width, mathematical and other scripts' digits and
letters (the compatibility decompositions of Unicode Standard Annex 15), accents, invisible and control characters
inside a value, letters of other scripts that look like Latin ones (the like of Unicode Technical Standard 39, for
Cyrillic and Greek), typographic dashes and quotation marks, and the escapes of JSON and programming languages, HTML and
URLs inside a string. Only what comes to ASCII, or to nothing, is replaced.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence

# A character that folds to nothing is deleted, one that is not listed stays.
FoldingTable = Mapping[int, str]

_LOOK_ALIKES = (
    ("аеосрхуіјѕһԁԛԝкмт", "aeocpxyijshdqwkmt"),
    ("АВЕКМНОРСТУХІЈЅԚԜҮ", "ABEKMHOPCTYXIJSQWY"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"),
    ("αικνορυ", "aiknopu"),
    ("ıøđł", "iodl"),
    ("‐‑‒–—―−﹘", "--------"),
    ("‘’‚‛′“”„‟″«»", '\'\'\'\'\'"""""""'),
    ("∕⁄。｡", "//.."),
)
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2800"
_INVISIBLE = frozenset({"Cf", "Mn", "Me"})
# No sign stands for them, so that they would cut a value in two where nobody sees it.
_CONTROLS = bytes([*range(0x00, 0x09), *range(0x0E, 0x20), 0x7F])
_NEXT_LINE = 0x85
# Everything that folds lies below the second, or is an invisible tag or variation selector of the last.
_FOLDED_RANGES = (range(0x80, 0x3400), range(0xA000, 0xAC00), range(0xF900, 0x20000), range(0xE0000, 0xE0200))
_NOT_ITSELF = re.compile(r"[^\t-\r -~]+")
_HEX = "[0-9A-Fa-f]"
_NEXT = f"(?:%[89ABab]{_HEX})"
_ENTITIES = {
    "Tab": " ",
    "NewLine": " ",
    "nbsp": " ",
    "ensp": " ",
    "emsp": " ",
    "thinsp": " ",
    "amp": "&",
    "ast": "*",
    "colon": ":",
    "comma": ",",
    "commat": "@",
    "dash": "-",
    "hyphen": "-",
    "lowbar": "_",
    "num": "#",
    "period": ".",
    "plus": "+",
    "sol": "/",
    "quot": '"',
    "apos": "'",
    "shy": "",
    "zwj": "",
    "zwnj": "",
}
# A run of backslashes is tried once, from its first: from each of them, long runs would take quadratic time. That each
# alternative begins with its character lets the search pass over all others quickly.
_ESCAPE = re.compile(
    rf"""
    \\(?<!\\\\)\\*+(?:u(?P<u4>{_HEX}{{4}})|x(?P<x2>{_HEX}{{2}})|u\{{(?P<u6>{_HEX}{{1,6}})\}}|U(?P<u8>{_HEX}{{8}})
        |(?P<blank>[nrtbf])|(?=["'/]))
    |&\#0*+(?P<decimal>[0-9]{{1,7}}|(?<=0));?
    |&\#[xX]0*+(?P<hexadecimal>{_HEX}{{1,6}}|(?<=0));?
    |&(?P<entity>{"|".join(_ENTITIES)});
    |%(?P<utf8>[0-7]{_HEX}|[CDcd]{_HEX}{_NEXT}|[Ee]{_HEX}{_NEXT}{{2}}|[Ff]{_HEX}{_NEXT}{{3}})
    """,
    re.VERBOSE,
)


def folding_table() -> FoldingTable:
    """Work out what every character folds to that does not stand for itself."""
    table = {code: folded for span in _FOLDED_RANGES for code in span if (folded := _folded(chr(code))) is not None}
    for alike, latin in _LOOK_ALIKES:
        table.update(zip(map(ord, alike), latin, strict=True))
    table.update(dict.fromkeys((*map(ord, _FILLERS), *_CONTROLS), ""))
    return table


def _folded(char: str) -> str | None:
    category = unicodedata.category(char)
    if category in _INVISIBLE or (category == "Cc" and ord(char) != _NEXT_LINE):
        return ""
    if category == "Zs" or ord(char) == _NEXT_LINE:
        return " "
    if category == "Nd":
        return str(unicodedata.decimal(char))
    decomposed = unicodedata.normalize("NFKD", char)
    if decomposed == char:
        return None
    plain = "".join(c for c in decomposed if unicodedata.category(c) not in _INVISIBLE)
    return plain if plain.isascii() else None


def needs_folding(text: str) -> bool:
    """Whether a text may differ from its folding."""
    return not text.isascii() or _may_hold_escapes(text) or len(text.encode().translate(None, _CONTROLS)) < len(text)


def _may_hold_escapes(text: str) -> bool:
    return "\\" in text or "%" in text or "&" in text


def fold(text: str, table: FoldingTable) -> bytes:
    """Return the folding of a text, in UTF-8."""
    plain = _ESCAPE.sub(_unescaped, text) if _may_hold_escapes(text) else text
    # What can be printed of ASCII stands for itself, and translating it would look each of its characters up.
    return _NOT_ITSELF.sub(lambda run: run[0].translate(table), plain).encode("utf-8", "replace")


def origins(text: str, table: FoldingTable) -> Sequence[int]:
    """Map each byte of `fold(text, table)`, and its end, to the index of the character that it came from."""
    found: list[int] = []
    at = 0
    for match in _ESCAPE.finditer(text):
        _extend(found, text, at, match.start(), table)
        found.extend([match.start()] * sum(_width(char, table) for char in _unescaped(match)))
        at = match.end()
    _extend(found, text, at, len(text), table)
    found.append(len(text))
    return found


def _extend(found: list[int], text: str, start: int, end: int, table: FoldingTable) -> None:
    """Map what stands between two escapes."""
    for match in _NOT_ITSELF.finditer(text, start, end):
        found.extend(range(start, match.start()))
        for index, char in enumerate(match[0], match.start()):
            found.extend([index] * _width(char, table))
        start = match.end()
    found.extend(range(start, end))


def _unescaped(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind is None:  # backslashes before what they escape
        return ""
    spelled = match[kind]
    if kind == "blank":
        return " "
    if kind == "entity":
        return _ENTITIES[spelled]
    if kind == "utf8":
        return bytes.fromhex(spelled.replace("%", "")).decode("utf-8", "replace")
    code = int(spelled or "0", 10 if kind == "decimal" else 16)  # of zeros alone, none is left
    return chr(code) if code <= sys.maxunicode else ""


def _width(char: str, table: FoldingTable) -> int:
    """Return how many bytes a character folds to."""
    folded = table.get(ord(char))
    return len(char.encode("utf-8", "replace")) if folded is None else len(folded)

"""Which end of a text that still grows can become a finding, so that only that is held back and the rest is shown.

A text is read word by word. Plain words (letters, of ordinary length, that introduce nothing) pass at once. Any other
word opens a stretch, which ends once some plain words have followed it: no value that a detector knows goes on past
those. Only stretches need to be scanned. Where they begin and end depends on the characters alone and never on the
pieces that they came in, so a text that came whole and one that came letter by letter are judged alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from routing_policies.signals.identifiers import MONTHS

_ENDS = r"\s,;{}\[\]，。；！？、："
_LONGEST_WORD = 4096
_WORD = re.compile(rf"[^{_ENDS}]{{0,{_LONGEST_WORD - 1}}}[{_ENDS}]|[^{_ENDS}]{{{_LONGEST_WORD}}}")
# Letters that no folding makes a digit or a sign: Latin, Greek to Hebrew, Arabic, Devanagari, Thai, Kana, Han, Hangul.
_LETTERS = (
    "A-Za-z\u00c0-\u024f\u0370-\u05ea\u0620-\u064a\u0671-\u06d3\u0904-\u0939\u0e01-\u0e4e\u3041-\u30ff"
    "\u4e00-\u9fff\uac00-\ud7a3"
)
_PLAIN = re.compile(rf"[\"'(*`]{{0,3}}[{_LETTERS}]{{1,24}}(?:['’-][{_LETTERS}]{{1,24}}){{0,3}}[.!?:)\"'*`]{{0,4}}")
_LEADS = re.compile(
    rf"(?i)pass(?:word|wd|phrase|wort)|mot|contrase|kennwort|senha|pwd|secret|token|key|credential|\bpin\b|bearer|begin|"
    rf"密|口令|パス|비밀|암호|patient|\bpt\b|^\W*(?:sk|gl\w{{2,4}}|xox\w|xapp)-|^\W*{MONTHS}\W*$"
)
_LONGEST_PLAIN_WORD = 24
_CALM_WORDS = 6
LONGEST_STRETCH = 4096


class Stretch(NamedTuple):
    """A piece of a text, in order.

    Attributes:
        text: The piece.
        is_plain: Whether it can hold no value, so that nobody needs to look at it.
        is_cut: Whether the stretch was too long to wait for its end, and goes on with the next piece.
    """

    text: str
    is_plain: bool
    is_cut: bool = False


class Stretches:
    """Cuts one text into stretches as it comes."""

    def __init__(self) -> None:
        """Start at the beginning of the text."""
        self._word = ""
        self._stretch = ""
        self._calm = 0

    def feed(self, text: str) -> Iterator[Stretch]:
        """Take the next piece of the text, and yield what can be judged by now."""
        text = self._word + text
        at = 0
        plain = ""
        for match in _WORD.finditer(text):
            word, at = match.group(), match.end()
            if not self._stretch and _is_calm(word):
                plain += word
                continue
            if plain:
                yield Stretch(plain, is_plain=True)
                plain = ""
            self._stretch += word
            if _is_calm(word):
                self._calm += len(word) > 1
            else:
                self._calm = 0
            if self._calm == _CALM_WORDS:
                yield self._closed()
            elif len(self._stretch) >= LONGEST_STRETCH:
                yield self._closed(is_cut=True)
        if plain:
            yield Stretch(plain, is_plain=True)
        self._word = text[at:]

    def keep(self, text: str) -> None:
        """Put the end of a stretch that was cut back to the front of what follows it."""
        self._stretch = text + self._stretch

    def rest(self) -> Iterator[Stretch]:
        """Yield what is left, once it is clear that nothing follows."""
        word, self._word = self._word, ""
        if self._stretch or not _is_calm(f"{word} "):
            self._stretch += word
            yield self._closed()
        elif word:
            yield Stretch(word, is_plain=True)

    def _closed(self, *, is_cut: bool = False) -> Stretch:
        closed, self._stretch, self._calm = Stretch(self._stretch, is_plain=False, is_cut=is_cut), "", 0
        return closed


def _is_calm(word: str) -> bool:
    """Whether a word, with the character that ends it, is plain; the end alone is."""
    core = word[:-1]
    if len(core) > _LONGEST_PLAIN_WORD:
        return False
    return not core or (_PLAIN.fullmatch(core) is not None and _LEADS.search(core) is None)

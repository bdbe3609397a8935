"""Values that are cut in two by the end of a part: `4111 1111` in one message and `1111 1111` in the next.

A model reads the parts of a conversation as one text, so what nobody would find in either is there all the same. What
stands before the end of a part is scanned once more together with what comes next, where the cut may run through a
value. Short parts are joined on both sides, since a value can be cut more than once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from inference_protocol.text_parts import TextPart
from routing_policies.signals.label import Finding

_REACH = 64
_WHOLE = 48
_SAID = re.compile(r"messages\[\d+\]\.content(?:\[\d+\]\.text)?")
# A value goes on where one of its characters stands on both sides; all that is looked for holds a digit or an `@`.
_GOES_ON = re.compile(r"[\w@.+=/-]\s*\Z")
_WENT_ON = re.compile(r"\s*[\w@.+=/-]")
_TELLING = re.compile(r"[\d@]")


class Seam(NamedTuple):
    """The text around a cut, as a part of its own.

    Attributes:
        part: The end of the first part and the beginning of the second.
        cut: How many of its characters stand before the cut.
        first: Path of the first part, and where its last character stands.
        second: Path of the second part, and where its first character stands.
        further: Paths of the parts around these two that it reaches.
        near: Where in `part` the second part ends, or so much of it that a value before that is whole.
    """

    part: TextPart
    cut: int
    first: tuple[str, int]
    second: tuple[str, int]
    further: frozenset[str]
    near: int

    def is_cut(self, finding: Finding, known: Iterable[Finding]) -> bool:
        """Whether the cut runs through a finding in `part`, or through it and the word before it that tells what it is.

        What was found in one of the two parts by itself was not cut.
        """
        if not (finding.start < self.cut < finding.end or self.cut <= finding.start < finding.end <= self.near):
            return False
        first, second = self.first, self.second
        begins = first[1] - (self.cut - finding.start)
        ends = second[1] + (finding.end - self.cut)
        return not any(
            (each.path == first[0] and each.end > begins)
            or (each.path == second[0] and each.start < ends)
            or (each.path in self.further and each.tag == finding.tag)
            for each in known
        )


def seams(parts: Sequence[TextPart]) -> Iterator[Seam]:
    """Yield what stands around each cut that may run through a value, once joined and once with a space between."""
    said = [(part, part.text) for part in parts if _is_said(part) and isinstance(part.text, str)]
    texts = [text for _, text in said]
    for at, ((first, first_text), (second, second_text)) in enumerate(pairwise(said), 1):
        for joint in ("", " "):
            (end, since), (beginning, until) = _end(texts, at, joint), _beginning(texts, at, joint)
            if not (_GOES_ON.search(end) and _WENT_ON.match(beginning)):
                break
            if not (_TELLING.search(end) or _TELLING.search(beginning)):
                break
            before, after = end.rstrip(), beginning.lstrip()
            yield Seam(
                TextPart(f"{first.path}+", first.role, before + joint + after, first.field),
                len(before),
                (first.path, len(first_text) - (len(end) - len(before))),
                (second.path, len(beginning) - len(after)),
                frozenset(part.path for part, _ in (*said[since : at - 1], *said[at + 1 : until])),
                len(before + joint) + min(len(second_text.strip()), _WHOLE),
            )


def _is_said(part: TextPart) -> bool:
    is_blank = not isinstance(part.text, str) or not part.text.strip()
    return not is_blank and _SAID.fullmatch(part.path) is not None


def _end(texts: Sequence[str], at: int, joint: str) -> tuple[str, int]:
    """Return the last characters of what stands before a part, and the index of the text they begin in."""
    since = at - 1
    end = texts[since][-_REACH:]
    while since > 0 and len(end) < _REACH:
        since -= 1
        end = texts[since][-_REACH:] + joint + end
    return end[-_REACH:], since


def _beginning(texts: Sequence[str], at: int, joint: str) -> tuple[str, int]:
    """Return the first characters of a part and what follows it, and the index after the text they end in."""
    until = at + 1
    beginning = texts[at][:_REACH]
    while until < len(texts) and len(beginning) < _REACH:
        beginning += joint + texts[until][:_REACH]
        until += 1
    return beginning[:_REACH], until

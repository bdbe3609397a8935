"""Values that are cut in two by the end of a part: `4111 1111` in one message and `1111 1111` in the next.

A model reads the parts of a conversation as one text, so what nobody would find in either is there all the same. The
end of a part is scanned once more together with the beginning of the next, where the cut may run through a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from inference_protocol.text_parts import TextPart
from routing_policies.signals.label import Finding

_REACH = 40
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
    """

    part: TextPart
    cut: int
    first: tuple[str, int]
    second: tuple[str, int]

    def is_cut(self, finding: Finding, known: Iterable[Finding]) -> bool:
        """Whether the cut runs through a finding in `part` of which no part by itself was found."""
        if not finding.start < self.cut < finding.end:
            return False
        first, second = self.first, self.second
        begins = first[1] - (self.cut - finding.start)
        ends = second[1] + (finding.end - self.cut)
        return not any(
            (each.path == first[0] and each.end > begins) or (each.path == second[0] and each.start < ends)
            for each in known
        )


def seams(parts: Sequence[TextPart]) -> Iterator[Seam]:
    """Yield what stands around each cut that may run through a value, once joined and once with a space between."""
    said = [part for part in parts if isinstance(part.text, str) and _SAID.fullmatch(part.path)]
    for first, second in pairwise(said):
        assert isinstance(first.text, str)
        assert isinstance(second.text, str)
        end, beginning = first.text[-_REACH:], second.text[:_REACH]
        if not (_GOES_ON.search(end) and _WENT_ON.match(beginning)):
            continue
        if not (_TELLING.search(end) or _TELLING.search(beginning)):
            continue
        for joint in ("", " "):
            before, after = end.rstrip(), beginning.lstrip()
            yield Seam(
                TextPart(f"{first.path}+", first.role, before + joint + after, first.field),
                len(before),
                (first.path, len(first.text) - (len(end) - len(before))),
                (second.path, len(beginning) - len(after)),
            )

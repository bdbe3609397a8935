"""Looks for identifiers and secrets in what a target answers, and does with them what the policy says.

The scanner is the one that requests are read with. It sees each stretch that may hold a value with what stood before
it, the same ones however the answer was cut. What could not be judged counts as found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.dispatch.answer_texts import ChannelKey
from inference_protocol.errors import AnswerWithheld
from inference_protocol.text_parts import TextPart
from routing_policies.policy.model import Answers, AnswerScanning
from routing_policies.signals.scanner import Scanner
from routing_policies.signals.stretches import Stretch, Stretches

_CONTEXT = 128  # characters before a stretch: more than any detector looks back
_TAIL = 256  # of a stretch that was cut: judged again with what follows
_UNINSPECTED = "uninspected"

Span = tuple[str, int, int]
"""Kind, first character, one past the last."""


class AnswerScan:
    """What is looked for in one answer, and what was found so far."""

    def __init__(self, rules: Answers, scanner: Scanner, counts: Counter[str]) -> None:
        """Prepare to scan.

        Args:
            rules: What the policy says of answers.
            scanner: Finds the values.
            counts: Kind to number, filled as they are found.
        """
        self._rules = rules
        self._scanner = scanner
        self._counts = counts

    def channel(self, _: ChannelKey) -> ScannedText:
        """Open a channel: one text of one choice."""
        return ScannedText(self)

    def told(self) -> Mapping[str, Any]:
        """What the caller is told at the end."""
        return {"tidegate": {"findings": dict(sorted(self._counts.items()))}} if self._counts else {}

    def found_in(self, before: str, text: str) -> list[Span]:
        """Return what stands in a text, or reaches into it, in order."""
        result = self._scanner.scan([TextPart("answer", "assistant", before + text, "content")])
        if result.causes:
            return [(_UNINSPECTED, 0, len(text))]
        at = len(before)
        return [
            (f.kind, max(0, f.start - at), f.end - at)
            for f in result.findings
            if f.end > at and f.tag in self._rules.tags
        ]

    def shown(self, text: str, found: Iterable[Span]) -> str:
        """Return a text as the caller may see it.

        Raises:
            AnswerWithheld: The caller may not see it, nor what follows.
        """
        found = list(found)
        self._counts.update(kind for kind, _, _ in found)
        if not found or self._rules.scan is AnswerScanning.LABEL:
            return text
        if self._rules.scan is AnswerScanning.STOP:
            kinds = ", ".join(sorted({kind for kind, _, _ in found}))
            raise AnswerWithheld(f"The policy withholds the rest of the answer, which holds: {kinds}.")
        return "".join(_masked(text, found))


class ScannedText:
    """One text of an answer. What may still become a value is held back, up to a bound."""

    def __init__(self, scan: AnswerScan) -> None:
        """Start at the beginning of the text."""
        self._scan = scan
        self._stretches = Stretches()
        self._before = ""

    def feed(self, text: str) -> str:
        """Take the next piece, and return what can be shown by now."""
        return "".join(map(self._judged, self._stretches.feed(text)))

    def rest(self) -> str:
        """Return what was held back, once it is clear that nothing follows."""
        return "".join(map(self._judged, self._stretches.rest()))

    def _judged(self, stretch: Stretch) -> str:
        text = stretch.text
        found = [] if stretch.is_plain else self._scan.found_in(self._before, text)
        if stretch.is_cut:
            cut = len(text) - _TAIL
            cut = next((start for _, start, end in found if start < cut < end), cut) or len(text)
            self._stretches.keep(text[cut:])
            text, found = text[:cut], [each for each in found if each[1] < cut]
        self._before = (self._before + text)[-_CONTEXT:]
        return self._scan.shown(text, found)


def _masked(text: str, found: Iterable[Span]) -> Iterator[str]:
    at = 0
    for kind, start, end in found:
        if start >= at:
            yield text[at:start]
            yield f"[{kind} withheld]"
        at = max(at, end)
    yield text[at:]

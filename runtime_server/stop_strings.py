"""Strings that end an answer, found wherever token boundaries fall."""

from __future__ import annotations

from collections.abc import Iterable


class StopStrings:
    """Passes text on up to the first stop string, holding back only what may still become one.

    Text is taken one character at a time, so where it is cut does not depend on how it was split: at the stop string
    that is complete first, and at the longest of those complete at the same character.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        """Start with no text seen.

        Args:
            stops: Each at least one character.
        """
        self._matchers = [_Matcher(stop) for stop in sorted(set(stops), key=len, reverse=True)]
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Take more text and return what is now sure to be part of the answer; nothing once a stop string came."""
        if not self._matchers:
            return text
        if self.matched is not None:
            return ""
        seen = self._held + text
        for at, char in enumerate(text, start=len(self._held) + 1):
            for matcher in self._matchers:
                if matcher.advance(char):
                    self.matched, self._held = matcher.stop, ""
                    return seen[: at - len(matcher.stop)]
        sure = len(seen) - max(matcher.length for matcher in self._matchers)
        self._held = seen[sure:]
        return seen[:sure]

    def close(self) -> str:
        """Return what was held back: the text ended, so it can become a stop string no more."""
        held, self._held = self._held, ""
        return held


class _Matcher:
    """Knuth, Morris and Pratt's search for one string: constant time for each character, amortised."""

    __slots__ = ("_shorter", "length", "stop")

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.length = 0  # of the longest beginning of `stop` that the text so far ends with
        self._shorter = _borders(stop)

    def advance(self, char: str) -> bool:
        """Take one character and tell whether it completes the string."""
        length = self.length
        while length and self.stop[length] != char:
            length = self._shorter[length - 1]
        self.length = length = length + (self.stop[length] == char)
        return length == len(self.stop)


def _borders(stop: str) -> list[int]:
    """Return for each beginning of `stop` the length of the longest shorter beginning that it ends with."""
    borders = [0] * len(stop)
    length = 0
    for at in range(1, len(stop)):
        while length and stop[length] != stop[at]:
            length = borders[length - 1]
        length += stop[length] == stop[at]
        borders[at] = length
    return borders

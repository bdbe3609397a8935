"""What a detector of the second tier is: texts in, places of values out, or a failure that is never "clean"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class DetectorFailed(Exception):
    """The detector gave no answer that can be used: what it was asked of counts as uninspected."""


class Place(NamedTuple):
    """Where a value stands in a text, in characters."""

    kind: str
    tag: str
    start: int
    end: int


class TextDetector(Protocol):
    """Reads texts. It is bounded in time, and a failure of one call leaves the next one to succeed."""

    name: str
    tags: frozenset[str]

    async def find(self, texts: Sequence[str]) -> list[list[Place]]:
        """Return what stands in each of the texts.

        Raises:
            DetectorFailed: It threw, took too long, was killed, or answered nonsense.
        """
        ...

    async def run(self) -> None:
        """Keep what it asks ready to answer, until cancelled; may return where that is nobody's work here."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...

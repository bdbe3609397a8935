"""What a detector of the second tier is: parts of a request in, places of values out, or a failure, never "clean"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from inference_protocol.text_parts import UninspectableCause
from routing_policies.signals.label import ScanResult

FAILED = ScanResult(causes=frozenset({UninspectableCause.DETECTOR_ERROR}))
"""What is known of a request of which a detector says nothing."""


class DetectorFailed(Exception):
    """The detector gave no answer that can be used: what it was asked of counts as uninspected."""


class Place(NamedTuple):
    """Where a value stands in a text, in characters."""

    kind: str
    tag: str
    start: int
    end: int


class Detector(Protocol):
    """Reads something of requests. It is bounded in time, and a failure of one call leaves the next one to succeed."""

    name: str
    tags: frozenset[str]

    async def run(self) -> None:
        """Keep what it asks ready to answer, until cancelled; may return where that is nobody's work here."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...


class TextDetector(Detector, Protocol):
    """Reads texts."""

    async def find(self, texts: Sequence[str]) -> list[list[Place]]:
        """Return what stands in each of the texts.

        Raises:
            DetectorFailed: It threw, took too long, was killed, or answered nonsense.
        """
        ...

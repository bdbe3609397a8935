"""Which requests the second tier reads, and how what it finds joins what the scanner found.

It costs tens of milliseconds a kilobyte, and a second a picture, so it is asked only where its findings could change
which targets may answer.
A detector that fails leaves the request uninspected (`detector_error`), never clean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gateway.detector_settings import DetectorSettings
from gateway.detectors.classifier import ClassifierDetector
from gateway.detectors.detector import FAILED, Detector, DetectorFailed, Place, TextDetector
from gateway.detectors.pictures import PictureDetector
from gateway.detectors.presidio import PresidioDetector
from gateway.target_settings import TargetSettings
from inference_protocol.text_parts import TextPart
from routing_policies.decide import decide
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.label import Component, Finding, Label, LabelRules, ScanResult
from routing_policies.snapshot import Snapshot
from routing_policies.verdict import Verdict
from routing_policies.view import RequestView

_logger = logging.getLogger(__name__)


class SecondTier:
    """The detectors that are set up, asked together."""

    def __init__(self, detectors: Sequence[TextDetector], pictures: PictureDetector | None = None) -> None:
        """Ask these of texts, of which there may be none, and that one of pictures."""
        self._detectors = tuple(detectors)
        self._pictures = pictures
        self._all: tuple[Detector, ...] = (*detectors, *([] if pictures is None else [pictures]))

    @classmethod
    def from_settings(cls, settings: DetectorSettings, edge: TargetSettings | None = None) -> SecondTier:
        """Set up those that the settings name.

        Args:
            settings: Which they are.
            edge: The target that computes the models of a detector, unless its settings say otherwise.

        Raises:
            ValueError: One cannot be run here.
        """
        detectors: list[TextDetector] = []
        if settings.presidio is not None:
            detectors.append(PresidioDetector(settings.presidio))
        if settings.classifier is not None:
            detectors.append(ClassifierDetector(settings.classifier))
        here = () if edge is None else edge.endpoints
        return cls(detectors, None if settings.pictures is None else PictureDetector.of(settings.pictures, here))

    def could_matter(
        self,
        parts: Sequence[TextPart],
        policy: LoadedPolicy,
        view: RequestView,
        snapshot: Snapshot,
        verdict: Verdict,
    ) -> bool:
        """Whether anything that these detectors can find would leave other targets, or send other bytes to them."""
        tags = sorted(policy.label_rules.raising(self._tags_for(parts)))
        if not tags or not verdict.eligible:
            return False
        now = {(each.target, each.transform) for each in verdict.eligible}
        cases = [[tag] for tag in tags] + ([tags] if len(tags) > 1 else [])
        for tags in cases:
            raised = replace(view, label=_raised(view.label, tags, policy.label_rules))
            then = decide(policy, raised, snapshot).eligible
            if {(each.target, each.transform) for each in then} != now:
                return True
        return False

    async def read(self, parts: Sequence[TextPart], scan: ScanResult) -> ScanResult:
        """Return what the scanner found and what these detectors find beside it."""
        read = [part for part in parts if isinstance(part.text, str) and part.text.strip()]
        asked = [_asked(detector, read) for detector in self._detectors] if read else []
        if self._pictures is not None:
            asked.append(self._pictures.read(parts))
        findings = list(scan.findings)
        causes = set(scan.causes)
        for answer in await asyncio.gather(*asked):
            findings += _beside(findings, answer.findings)
            causes |= answer.causes
        return ScanResult(tuple(findings), frozenset(causes))

    async def run(self) -> None:
        """Keep the detectors ready to answer, until cancelled."""
        await asyncio.gather(*(detector.run() for detector in self._all))

    async def aclose(self) -> None:
        """Let go of what the detectors hold."""
        for detector in self._all:
            await detector.aclose()

    def _tags_for(self, parts: Sequence[TextPart]) -> set[str]:
        """What can be found in such a request."""
        tags = {tag for detector in self._detectors for tag in detector.tags}
        if self._pictures is not None and self._pictures.reads(parts):
            tags |= self._pictures.tags
        return tags


async def _asked(detector: TextDetector, parts: Sequence[TextPart]) -> ScanResult:
    try:
        found = await detector.find([str(part.text) for part in parts])
    except DetectorFailed as exc:
        _logger.warning("the detector %s failed: %s", detector.name, exc)
        return FAILED
    return ScanResult(tuple(_findings(detector.name, parts, found)))


def _findings(name: str, parts: Iterable[TextPart], found: Iterable[Iterable[Place]]) -> Iterator[Finding]:
    for part, places in zip(parts, found, strict=True):
        for place in places:
            yield Finding(place.kind, place.tag, part.path, place.start, place.end, name)


def _beside(known: Iterable[Finding], found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield what overlaps no finding of the same tag: that one stands, since a checksum says more than a guess."""
    taken: dict[tuple[str, str], list[Finding]] = {}
    for each in known:
        taken.setdefault((each.path, each.tag), []).append(each)
    for each in found:
        beside = taken.setdefault((each.path, each.tag), [])
        if not any(each.start < other.end and other.start < each.end for other in beside):
            beside.append(each)
            yield each


def _raised(label: Label, tags: Sequence[str], rules: LabelRules) -> Label:
    """The label of the same request, had these been found in it."""
    found = label.findings.tags.union(tags)
    return replace(
        label,
        findings=Component(max(map(rules.of_tag, found), default=None), found),
        fixed=label.fixed.union(tags),
    )

"""The first-tier scanner: identifiers and secrets in every text of a request, in time linear in its length.

All texts stand in one buffer, folded, separated by a byte that no pattern accepts. One pass of an RE2 set says which
patterns occur at all, nearly always none; only those are run for their places, and each place is checked.

It fails closed. A check that raises, or a set that could not be matched, is the cause `detector_error`, and more that
may be a value than is checked is the cause `truncated`, never "clean".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import re2

from inference_protocol.text_parts import TextPart, Uninspectable, UninspectableCause
from routing_policies.signals.cards import JOINED_CARDS
from routing_policies.signals.detector import Candidate, Detector
from routing_policies.signals.domains import DOMAIN
from routing_policies.signals.identifiers import IDENTIFIERS
from routing_policies.signals.label import SCANNER, Finding, ScanResult
from routing_policies.signals.national_ids import NATIONAL_IDS
from routing_policies.signals.normalize import FoldingTable, fold, folding_table, needs_folding, origins
from routing_policies.signals.seams import Seam, seams
from routing_policies.signals.secrets import SECRETS

__all__ = ["ScanResult", "Scanner", "build_joined_scanner", "build_scanner"]

_SET_MEMORY_BYTES = 32 << 20  # the default does not compile a set of this size
_PATTERN_MEMORY_BYTES = 2 << 20
_SEPARATOR = b"\x00"
# RE2 says "no match" also where it ran out of memory. This matches everything, so its absence gives that away.
_SENTINEL = r"\z"
_WORD_BOUNDARY = r"\b"
_FREE_TEXT_FIELDS = frozenset({"content", "text", "prompt", "input", "arguments", "description"})
_CAMEL_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONGEST_FIELD_NAME = 64
# A check takes some microseconds: a scan ends within seconds, whatever it is given.
_MOST_CHECKS = 200_000
_BYTES_OF_A_CHECK = 16


class _Place(NamedTuple):
    """Where a part stands in the buffer: its field's name, its text, its end. `is_folded`: offsets must be mapped."""

    path: str
    text: str
    is_folded: bool
    start: int
    text_start: int
    end: int


class _Match(NamedTuple):
    """An accepted candidate, in offsets of the buffer. They sort by tag, place and rank."""

    tag: str
    start: int
    rank: int
    end: int
    kind: str
    place: _Place


_BY_START = attrgetter("start")


class _Effort:
    """What is left of the checks that one scan may make; a long proposal counts as several."""

    def __init__(self) -> None:
        self._left = _MOST_CHECKS

    def allows(self, length: int) -> bool:
        self._left -= 1 + length // _BYTES_OF_A_CHECK
        return self._left >= 0


class Scanner:
    """Finds what its detectors know. Holds no state between scans and may be used from several threads."""

    def __init__(self, detectors: Sequence[Detector], table: FoldingTable, *, joined: bool = False) -> None:
        """Compile the detectors.

        Args:
            detectors: Where two of one tag find the same place, the earlier one names it.
            table: What characters fold to.
            joined: Whether texts have lost their spaces.
        """
        self._detectors = tuple(detectors)
        self._table = table
        self._joined = joined
        self._patterns = [re2.compile(d.pattern.encode(), _options(_PATTERN_MEMORY_BYTES)) for d in detectors]
        self._groups = [pattern.groups for pattern in self._patterns]
        self._set = re2.Set.SearchSet(_options(_SET_MEMORY_BYTES))
        for detector in detectors:
            self._set.Add(detector.pattern)
        self._sentinel: int = self._set.Add(_SENTINEL)
        self._set.Compile()

    def scan(self, parts: Iterable[TextPart]) -> ScanResult:
        """Scan the texts of a request; what is not text becomes a cause.

        A value that was cut in two by the end of one part of a conversation is found at the path of the first with
        `+` after it. There no other text can take its place.
        """
        causes: set[UninspectableCause] = set()
        held = list(parts)
        cuts = list(seams(held))
        buffer, places = self._lay_out([*held, *(cut.part for cut in cuts)], causes)
        hits = set(self._set.Match(buffer) or ())
        if self._sentinel not in hits:
            return ScanResult(causes=frozenset(causes | {UninspectableCause.DETECTOR_ERROR}))
        effort = _Effort()
        matches: list[_Match] = []
        for rank in sorted(hits - {self._sentinel}):
            self._match(rank, buffer, places, effort, causes, matches)
        found = tuple(self._findings(_without_overlaps(matches)))
        return ScanResult(_with_what_was_cut(found, cuts) if cuts else found, frozenset(causes))

    def _lay_out(self, parts: Iterable[TextPart], causes: set[UninspectableCause]) -> tuple[bytes, list[_Place]]:
        pieces: list[bytes] = []
        places: list[_Place] = []
        at = 0
        for part in parts:
            if isinstance(part.text, Uninspectable):
                causes.add(part.text.cause)
                continue
            name = fold(_field_name(part.field), self._table)
            is_folded = needs_folding(part.text)
            text = fold(part.text, self._table) if is_folded else part.text.encode("ascii")
            end = at + len(name) + len(text)
            places.append(_Place(part.path, part.text, is_folded, at, at + len(name), end))
            pieces.append(name + text)
            at = end + len(_SEPARATOR)
        return _SEPARATOR.join(pieces), places

    def _match(
        self,
        rank: int,
        buffer: bytes,
        places: Sequence[_Place],
        effort: _Effort,
        causes: set[UninspectableCause],
        matches: list[_Match],
    ) -> None:
        """Add what one detector accepts."""
        detector, pattern, group = self._detectors[rank], self._patterns[rank], self._groups[rank]
        tag, kind = detector.tag, detector.kind
        place = places[0]
        again: int | None = 0
        while again is not None:
            proposals, again = pattern.finditer(buffer, again), None
            for found in proposals:
                start, end = found.span(group)
                if not effort.allows(end - start):
                    causes.add(UninspectableCause.TRUNCATED)
                    return
                if not place.start <= start <= place.end:
                    place = places[bisect_right(places, start, key=_BY_START) - 1]
                proposal = Candidate(buffer, start, end, place.start, place.text_start, place.end, self._joined)
                accepted = _accepted(detector, proposal, causes)
                matches += [_Match(tag, value.start, rank, value.end, kind, place) for value in accepted]
                if detector.overlapping and not accepted:
                    again = found.start() + 1
                    break

    def _findings(self, matches: Iterable[_Match]) -> Iterator[Finding]:
        maps: dict[int, Sequence[int]] = {}
        for match in matches:
            place = match.place
            start, end = match.start - place.text_start, match.end - place.text_start
            if place.is_folded:
                if place.start not in maps:
                    maps[place.start] = origins(place.text, self._table)
                start, end = maps[place.start][start], maps[place.start][end]
            yield Finding(match.kind, match.tag, place.path, start, end, SCANNER)


def _with_what_was_cut(findings: Iterable[Finding], cuts: Sequence[Seam]) -> tuple[Finding, ...]:
    """Keep the findings in parts and, of those around cuts, the ones that only a cut kept from being found before."""
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(finding.path, []).append(finding)
    around = {path: by_path.pop(path, []) for path in dict.fromkeys(cut.part.path for cut in cuts)}
    known = [finding for some in by_path.values() for finding in some]
    cut_ones = [
        finding
        for path, some in around.items()
        for finding in some
        if any(cut.is_cut(finding, known) for cut in cuts if cut.part.path == path)
    ]
    return (*known, *dict.fromkeys(cut_ones))


def build_scanner() -> Scanner:
    """Compile the scanner with every detector. Takes tens of milliseconds: once a process."""
    return Scanner((*SECRETS, *NATIONAL_IDS, *IDENTIFIERS, DOMAIN), folding_table())


def build_joined_scanner() -> Scanner:
    """Compile a scanner for text that has lost its spaces, as what is read from pictures has.

    A value is found wherever it stands, whatever it touches. So more is found that is none, too.
    """
    detectors = (*SECRETS, *NATIONAL_IDS, *JOINED_CARDS, *IDENTIFIERS, DOMAIN)
    anywhere = [replace(each, pattern=each.pattern.replace(_WORD_BOUNDARY, "")) for each in detectors]
    return Scanner(anywhere, folding_table(), joined=True)


def _accepted(detector: Detector, proposal: Candidate, causes: set[UninspectableCause]) -> list[Candidate]:
    """Return the values in what a pattern proposed; none begins in another or in the name of a field."""
    at = proposal.text_start
    found: list[Candidate] = []
    try:
        for candidate in detector.within(proposal):
            if candidate.start >= at and detector.accept(candidate):
                found.append(candidate)
                at = candidate.end
    except Exception:  # a check is supervised: whatever it raises, its part is not clean
        causes.add(UninspectableCause.DETECTOR_ERROR)
    return found


def _options(memory_bytes: int) -> re2.Options:
    options = re2.Options()
    options.max_mem = memory_bytes
    options.log_errors = False
    return options


def _field_name(field: str | None) -> str:
    """Spell a field's name so that its value reads as in a sentence: `cardNumber` becomes `card Number: `."""
    if field is None or field in _FREE_TEXT_FIELDS:
        return ""
    return _CAMEL_HUMP.sub(" ", field[-_LONGEST_FIELD_NAME:]).replace("_", " ") + ": "


def _without_overlaps(matches: Iterable[_Match]) -> list[_Match]:
    """Keep one of those that overlap within a tag, the one whose detector stands first; in order of place."""
    kept: list[_Match] = []
    for match in sorted(matches):
        if kept and kept[-1].tag == match.tag and match.start < kept[-1].end:
            if match.rank < kept[-1].rank:
                kept[-1] = match
        else:
            kept.append(match)
    return sorted(kept, key=_BY_START)

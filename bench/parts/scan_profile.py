"""Where the scan of a text that is dense with findings spends its time, stage by stage, in microseconds a finding.

Each stage is run by itself, on what the stage before it left.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from inference_protocol.text_parts import TextPart
from routing_policies.signals import scanner as module
from routing_policies.signals.detector import Candidate
from routing_policies.signals.scanner import Scanner

ROUNDS = 30


def profile(scanner: Scanner, text: str) -> dict[str, float]:
    """Return what each stage costs, and `whole` for all of them as they run together."""
    part = TextPart("prompt", None, text)
    whole = _fastest_us(lambda: scanner.scan([part]))  # before there is anything else for the garbage collector
    buffer, places = scanner._lay_out([part], set())
    hits = sorted(set(scanner._set.Match(buffer)) - {scanner._sentinel})
    proposals = _proposals(scanner, hits, buffer)
    wrapped = _wrapped(proposals, buffer, places)
    matches = _accepted(scanner, wrapped)
    stages = {
        "lay the texts out, folded": lambda: scanner._lay_out([part], set()),
        "one pass of the set": lambda: scanner._set.Match(buffer),
        "find the places of what occurs": lambda: _proposals(scanner, hits, buffer),
        "wrap each place": lambda: _wrapped(proposals, buffer, places),
        "check values and what stands around them": lambda: _accepted(scanner, wrapped),
        "drop overlaps": lambda: module._without_overlaps(matches),
        "tell the findings": lambda: list(scanner._findings(matches)),
    }
    taken = {name: _fastest_us(stage) for name, stage in stages.items()} | {"whole": whole}
    findings = len(module._without_overlaps(matches))
    return {name: us / findings for name, us in taken.items()}


def _proposals(scanner: Scanner, ranks: Iterable[int], buffer: bytes) -> list[tuple[int, int, int]]:
    return [
        (rank, *found.span(scanner._groups[rank]))
        for rank in ranks
        for found in scanner._patterns[rank].finditer(buffer, 0)
    ]


def _wrapped(
    proposals: Iterable[tuple[int, int, int]], buffer: bytes, places: Sequence[module._Place]
) -> list[tuple[int, Candidate, module._Place]]:
    found = []
    for rank, start, end in proposals:
        place = places[bisect_right(places, start, key=module._BY_START) - 1]
        candidate = Candidate(buffer, start, end, place.start, place.text_start, place.end)
        found.append((rank, candidate, place))
    return found


def _accepted(scanner: Scanner, wrapped: Iterable[tuple[int, Candidate, module._Place]]) -> list[module._Match]:
    found = []
    for rank, candidate, place in wrapped:
        detector = scanner._detectors[rank]
        found += [
            module._Match(detector.tag, value.start, rank, value.end, detector.kind, place)
            for value in module._accepted(detector, candidate, set())
        ]
    return found


def _fastest_us(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        taken.append((time.process_time() - began) * 1e6)
    return min(taken)

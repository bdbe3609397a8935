"""Sentences with labelled spans, read by a detector: recall and precision by kind, and what a kilobyte takes."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gateway.detectors.presidio_worker import analyzer
from inference_protocol.text_parts import TextPart
from routing_policies.signals.scanner import Scanner

# Kinds with a form of their own, that must be found, and others, told apart.
STRUCTURED = ("CREDIT_CARD", "IBAN_CODE", "EMAIL_ADDRESS", "IP_ADDRESS", "DOMAIN_NAME", "US_SSN")
APART = ("PHONE_NUMBER", "ZIP_CODE", "US_DRIVER_LICENSE", "PERSON")
OURS = {
    "card": "CREDIT_CARD",
    "iban": "IBAN_CODE",
    "email": "EMAIL_ADDRESS",
    "ip_address": "IP_ADDRESS",
    "domain": "DOMAIN_NAME",
    "us_ssn": "US_SSN",
    "phone": "PHONE_NUMBER",
}


class Span(NamedTuple):
    kind: str
    start: int
    end: int


Detect = Callable[[str], list[Span]]


def ours(scanner: Scanner) -> Detect:
    def detect(text: str) -> list[Span]:
        findings = scanner.scan([TextPart("prompt", None, text)]).findings
        return [Span(OURS.get(f.kind, f.kind), f.start, f.end) for f in findings]

    return detect


def presidio() -> Detect:
    """Presidio with spaCy, with every kind that it knows, as it comes."""
    engine = analyzer()

    def detect(text: str) -> list[Span]:
        named = {"URL": "DOMAIN_NAME"}
        return [Span(named.get(r.entity_type, r.entity_type), r.start, r.end) for r in engine.analyze(text, "en")]

    return detect


def measured(path: Path, detect: Detect) -> dict[str, Any]:
    """Half of a labelled span covered by any finding counts as found; a finding is right where it touches its kind."""
    rows: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    there: Counter[str] = Counter()
    found: Counter[str] = Counter()
    right: Counter[str] = Counter()
    all_of: Counter[str] = Counter()
    outside = 0
    taken = 0.0
    for row in rows:
        began = time.process_time()
        findings = detect(row["text"])
        taken += time.process_time() - began
        spans = [Span(*span) for span in row["spans"]]
        for span in spans:
            there[span.kind] += 1
            found[span.kind] += any(_common(span, each) >= (span.end - span.start) / 2 for each in findings)
        for each in findings:
            all_of[each.kind] += 1
            right[each.kind] += any(_common(span, each) > 0 and span.kind == each.kind for span in spans)
            outside += not any(_common(span, each) > 0 for span in spans)
    kilobytes = sum(len(row["text"].encode()) for row in rows) / 1024
    return {
        "sentences": len(rows),
        "ms_per_kb": taken * 1000 / kilobytes,
        "findings": sum(all_of.values()),
        "findings_outside_any_span": outside,
        "kinds": {
            kind: {
                "there": there[kind],
                "found": found[kind],
                "recall": found[kind] / there[kind],
                "precision": right[kind] / all_of[kind] if all_of[kind] else None,
            }
            for kind in (*STRUCTURED, *APART)
        },
    }


def _common(one: Span, other: Span) -> int:
    return min(one.end, other.end) - max(one.start, other.start)

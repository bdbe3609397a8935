"""Finds one request in a state folder: its two records, and its spans in the trace files of all programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from opentelemetry.trace import SpanKind

from gateway.cli.waterfall import of_request
from gateway.records.reader import last_record, read_records
from gateway.state_folder import StateFolder
from inference_protocol import telemetry_names as names
from observability.span_reader import StoredSpan, read_spans

_LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class FoundRequest:
    """What is known of one request.

    Attributes:
        request_id: `None` where spans were found by a trace id and no record names the request.
        decision: Its decision record; a request that was refused before has none.
        outcome: Its outcome record; one that still runs has none.
    """

    request_id: str | None
    trace_id: str
    decision: dict[str, Any] | None
    outcome: dict[str, Any] | None
    spans: tuple[StoredSpan, ...]

    @property
    def silent_attempts(self) -> list[StoredSpan]:
        """Attempts that did not fail and under which the program that was asked has no span."""
        parents = {span.parent_id for span in self.spans}
        return [span for span in self._attempts if not span.is_error and span.span_id not in parents]

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is to come: one root, every attempt, and under each the spans of its target."""
        known = {span.span_id for span in self.spans}
        roots = [span for span in self.spans if span.parent_id not in known]
        return (
            self.outcome is not None
            and len(roots) == 1
            and len(self._attempts) >= len(self.outcome["attempts"])
            and not self.silent_attempts
        )

    @property
    def last_seen_s(self) -> float:
        """Seconds since the epoch at which it last did something."""
        records = [record for record in (self.decision, self.outcome) if record is not None]
        moments = [datetime.fromisoformat(record["time"]).timestamp() for record in records]
        return max([span.end_ns / 1e9 for span in self.spans] + moments, default=0.0)

    @property
    def _attempts(self) -> list[StoredSpan]:
        return [span for span in self.spans if span.kind is SpanKind.CLIENT]


def find_request(state_dir: Path, wanted: str | None) -> FoundRequest | None:
    """Find a request.

    Args:
        state_dir: The state folder of the programs.
        wanted: Our request id, the caller's own, our trace id, or the caller's trace id that ours links to. Where
            several requests go by it, the newest. `None` for the newest of all.
    """
    folder = StateFolder(state_dir)
    records = _records_of(folder.records, wanted)
    traces = folder.traces
    if records:
        newest = records[-1]
        request_id, trace_id = newest["request_id"], newest["trace_id"]
    elif wanted is not None and (named := [span for span in read_spans(traces, wanted) if _goes_by(span, wanted)]):
        newest_span = max(named, key=lambda span: span.end_ns)
        request_id, trace_id = newest_span.attributes.get(names.REQUEST_ID), newest_span.trace_id
    else:
        return None
    by_kind = {record["kind"]: record for record in records if record["request_id"] == request_id}
    by_id = {span.span_id: span for span in read_spans(traces, trace_id) if span.trace_id == trace_id}
    spans = list(by_id.values())
    if request_id is not None and wanted != trace_id:
        spans = of_request(spans, request_id)
    return FoundRequest(request_id, trace_id, by_kind.get("decision"), by_kind.get("outcome"), tuple(spans))


def find_settled(
    state_dir: Path,
    wanted: str | None,
    *,
    wait_s: float,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> FoundRequest | None:
    """Find a request, waiting for what its programs have not written yet.

    Spans are written in batches, so those of a request that has just been answered come a moment later.

    Args:
        state_dir: The state folder of the programs.
        wanted: As `find_request`.
        wait_s: Longest wait; a request that was last heard of longer ago is not waited for.
        clock: Seconds since the epoch.
        sleep: Waits so many seconds.
    """
    give_up_at = clock() + wait_s
    while True:
        found = find_request(state_dir, wanted)
        if found is None or found.is_complete:
            return found
        if clock() >= give_up_at or clock() - found.last_seen_s >= wait_s:
            return found
        wanted = wanted or found.request_id  # the same one, although a newer may come meanwhile
        sleep(_LOOK_AGAIN_S)


def _records_of(directory: Path, wanted: str | None) -> list[dict[str, Any]]:
    if wanted is None:
        newest = last_record(directory)
        return _records_of(directory, newest["request_id"]) if newest is not None else []
    ids = ("request_id", "client_request_id", "trace_id")
    return [record for record in read_records(directory, wanted) if wanted in (record[name] for name in ids)]


def _goes_by(span: StoredSpan, wanted: str) -> bool:
    return wanted in (span.trace_id, span.attributes.get(names.REQUEST_ID)) or wanted in span.linked_traces

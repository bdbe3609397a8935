"""Reads spans back from the OTLP/JSON lines on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.trace import SpanKind, StatusCode

from observability.json_lines import lines_of, parsed


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """One ended span of any of our processes.

    Attributes:
        service: The program that made it.
        parent_id: `None` at a trace's root.
        start_ns: Unix nanoseconds.
        end_ns: Unix nanoseconds.
        linked_traces: Ids of the traces that it points to, such as an untrusted caller's.
    """

    service: str
    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: SpanKind
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    linked_traces: frozenset[str] = frozenset()
    is_error: bool = False


def read_spans(directory: Path, containing: str) -> Iterator[StoredSpan]:
    """Yield the spans of every line that holds `containing`; a line is a batch, so also spans that do not.

    A folder that does not exist holds nothing, and lines that a dying process left unfinished are passed over.
    """
    for request in parsed(lines_of(directory, containing)):
        for resource in request["resourceSpans"]:
            service = _attributes(resource["resource"]["attributes"]).get("service.name", "?")
            for scope in resource["scopeSpans"]:
                yield from (_span(service, span) for span in scope["spans"])


def _span(service: str, span: dict[str, Any]) -> StoredSpan:
    return StoredSpan(
        service=service,
        trace_id=span["traceId"],
        span_id=span["spanId"],
        parent_id=span.get("parentSpanId"),
        name=span["name"],
        kind=SpanKind(span["kind"] - 1),
        start_ns=int(span["startTimeUnixNano"]),
        end_ns=int(span["endTimeUnixNano"]),
        attributes=_attributes(span["attributes"]),
        linked_traces=frozenset(link["traceId"] for link in span.get("links", ())),
        is_error=span["status"]["code"] == StatusCode.ERROR.value,
    )


def _attributes(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in pairs}


def _value(value: dict[str, Any]) -> Any:
    [(kind, inner)] = value.items()
    if kind == "intValue":
        return int(inner)
    if kind == "arrayValue":
        return [_value(item) for item in inner["values"]]
    return inner

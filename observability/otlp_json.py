"""Spans as OTLP/JSON, the encoding that the Collector's `otlpjsonfile` receiver reads.

Format: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding (ids in hex, 64-bit integers as strings, enums
as numbers). Built straight from the SDK's spans: by way of protobuf messages the same costs several times as much, on
the interpreter that also serves requests. `tests/observability` reads it back with the official schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

_HAS_IS_REMOTE = 0x100
_IS_REMOTE = 0x200


def export_request(spans: Sequence[ReadableSpan]) -> bytes:
    """Return one `ExportTraceServiceRequest` as one line. `spans` is not empty and comes from one provider."""
    by_scope: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for span in spans:
        scope = span.instrumentation_scope
        key = (scope.name, scope.version or "") if scope is not None else ("", "")
        by_scope.setdefault(key, []).append(_span(span))
    request = {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(spans[0].resource.attributes)},
                "scopeSpans": [
                    {"scope": {"name": name, "version": version}, "spans": encoded}
                    for (name, version), encoded in by_scope.items()
                ],
            }
        ]
    }
    return orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE)


def _span(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context()
    assert context is not None  # only the SDK makes these, and always with one
    parent = span.parent
    encoded: dict[str, Any] = {
        **_ids(context),
        "flags": _flags(parent),
        "name": span.name,
        "kind": span.kind.value + 1,  # OTLP has UNSPECIFIED before the API's INTERNAL
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": _attributes(span.attributes or {}),
    }
    if parent is not None:
        encoded["parentSpanId"] = f"{parent.span_id:016x}"
    if span.links:
        encoded["links"] = [
            {**_ids(link.context), "flags": _flags(link.context), "attributes": _attributes(link.attributes or {})}
            for link in span.links
        ]
    if span.events:
        encoded["events"] = [
            {"timeUnixNano": str(e.timestamp), "name": e.name, "attributes": _attributes(e.attributes or {})}
            for e in span.events
        ]
    encoded["status"] = {"code": span.status.status_code.value}
    if span.status.description:
        encoded["status"]["message"] = span.status.description
    return encoded


def _ids(context: SpanContext) -> dict[str, str]:
    return {"traceId": f"{context.trace_id:032x}", "spanId": f"{context.span_id:016x}"}


def _flags(of: SpanContext | None) -> int:
    return _HAS_IS_REMOTE | (_IS_REMOTE if of is not None and of.is_remote else 0)


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case str():
            return {"stringValue": value}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:  # the SDK lets nothing else in than sequences of these
            return {"arrayValue": {"values": [_value(item) for item in value]}}

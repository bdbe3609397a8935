import base64
import json
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from observability import child
from observability.otlp_json import export_request

REMOTE = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(1))


def _spans() -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "edge"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("tidegate", "1.2")
    server = child(tracer, NonRecordingSpan(REMOTE), "POST /v1/chat/completions", SpanKind.SERVER)
    server.set_attributes(
        {"text": "é\n", "yes": True, "count": 2**53 + 1, "share": 0.25, "tags": ["pii", "phi"], "numbers": [1, 2]}
    )
    server.add_event("note", {"a": 1}, timestamp=12)
    inner = child(tracer, server, "decode", SpanKind.INTERNAL, start_ns=17)
    inner.set_status(StatusCode.ERROR, "it broke")
    inner.end()
    server.end()
    provider.get_tracer("other").start_span("linked", links=[Link(REMOTE, {"why": "untrusted"})]).end()
    return exporter.get_finished_spans()


def _ids_as_bytes(node: Any) -> Any:
    """Protobuf's JSON wants base64 where OTLP's says hex; the one difference between the two."""
    if isinstance(node, list):
        return [_ids_as_bytes(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: base64.b64encode(bytes.fromhex(value)).decode()
        if key in ("traceId", "spanId", "parentSpanId")
        else _ids_as_bytes(value)
        for key, value in node.items()
    }


def test_a_line_says_what_the_official_encoder_says() -> None:
    spans = _spans()
    line = export_request(spans)
    parsed = ParseDict(_ids_as_bytes(json.loads(line)), ExportTraceServiceRequest())
    assert parsed == encode_spans(spans)


def test_a_batch_is_one_line() -> None:
    line = export_request(_spans())
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


def test_ids_are_hex_and_times_are_strings_as_otlp_json_demands() -> None:
    [resource] = json.loads(export_request(_spans()))["resourceSpans"]
    decode = resource["scopeSpans"][0]["spans"][0]
    assert decode["traceId"] == f"{0xABC:032x}"
    assert len(decode["parentSpanId"]) == 16
    assert decode["startTimeUnixNano"] == "17"
    assert decode["kind"] == 1

"""Writes one request's spans and records as the three programs would: the cloud dies, the edge answers."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode, Tracer, format_trace_id

from gateway.records.log import RecordLog
from observability import Telemetry, TelemetrySettings, child, set_up

REQUEST_ID = "req-5f2b8c0d9e1a4b7c63d2f011"
CLIENT_ID = "shop-4711"


class Programs:
    """Three programs that trace into one state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.by_name: dict[str, Telemetry] = {
            name: set_up(TelemetrySettings(name, state_dir / "traces", None))
            for name in ("gateway", "edge_runtime", "cloud_runtime")
        }

    def __getitem__(self, name: str) -> Tracer:
        return self.by_name[name].tracer

    def flush(self) -> None:
        for telemetry in self.by_name.values():
            assert telemetry.shutdown(10)


def _span(
    tracer: Tracer, parent: Span, name: str, kind: SpanKind, at_ms: tuple[float, float], t0: int, **attributes: Any
) -> Span:
    start, end = (t0 + int(ms * 1e6) for ms in at_ms)
    span = child(tracer, parent, name, kind, start, {key.replace("__", "."): v for key, v in attributes.items()})
    if "error__type" in attributes:
        span.set_status(StatusCode.ERROR)
    span.end(end)
    return span


def write_traced_request(state_dir: Path, request_id: str = REQUEST_ID, age_s: float = 60.0) -> str:
    """Write it, as having begun `age_s` ago; return the trace id."""
    programs = Programs(state_dir)
    gateway, edge = programs["gateway"], programs["edge_runtime"]
    t0 = time.time_ns() - int(age_s * 1e9)
    server = _span(
        gateway,
        INVALID_SPAN,
        "POST /v1/chat/completions",
        SpanKind.SERVER,
        (0, 312.4),
        t0,
        tidegate__request_id=request_id,
        tidegate__outcome="ok",
        tidegate__target="edge",
        tidegate__parse_ms=0.06,
        tidegate__scan_ms=0.11,
        tidegate__decide_ms=0.14,
        tidegate__record_ms=0.09,
        tidegate__relay_ms=163.0,
    )
    _span(gateway, server, "route balanced", SpanKind.INTERNAL, (0.31, 0.62), t0, tidegate__target="cloud")
    _span(
        gateway,
        server,
        "chat smollm2-135m-instruct",
        SpanKind.CLIENT,
        (0.9, 41.3),
        t0,
        tidegate__target="cloud",
        error__type="upstream_cut",
    )
    attempt = _span(
        gateway, server, "chat smollm2-135m-instruct", SpanKind.CLIENT, (41.6, 311.9), t0, tidegate__target="edge"
    )
    runtime = _span(
        edge,
        attempt,
        "POST /v1/chat/completions",
        SpanKind.SERVER,
        (42.3, 311.5),
        t0,
        tidegate__request_id=request_id,
        tidegate__queue_ms=4.2,
        tidegate__prefill_ms=101.0,
        tidegate__decode_ms=162.8,
    )
    del runtime
    programs.flush()
    trace_id = format_trace_id(server.get_span_context().trace_id)
    log = RecordLog(state_dir / "records", durability="process", max_bytes=1 << 20, files=2)
    for record in _records(request_id, trace_id, t0 / 1e9):
        log.write(record)
    log.close()
    return trace_id


def _records(request_id: str, trace_id: str, began_s: float) -> list[dict[str, Any]]:
    ids = {"request_id": request_id, "client_request_id": CLIENT_ID, "trace_id": trace_id, "tenant": "local"}
    terms = {"deadline": 0.9, "exposure": 0.5, "fit": 0.9, "cost": 0.5, "energy": 0.5, "quality": 1.0}
    return [
        {
            "kind": "decision",
            "time": datetime.fromtimestamp(began_s, UTC).isoformat(timespec="milliseconds"),
            **ids,
            "stream": True,
            "label": {"class": "internal", "tags": ["pii"], "findings": {"email": 2}},
            "budget": {"total_ms": 1500.0, "ttft_ms": None},
            "policy": {"name": "balanced", "digest": "3fa9c1d2" * 8},
            "eligible": [{"target": "cloud", "transform": "none"}, {"target": "edge", "transform": "none"}],
            "excluded": {
                "gpu-pool": {"kind": "constraint", "rule": "eu-only", "detail": "does not meet the requirement"}
            },
            "reason": "highest-score",
            "scores": {"latency": 0.31, "privacy": 0.33, "size": 0.04},
            "predictions": {
                "cloud": {"ttft_ms": 95.0, "total_ms": 210.0},
                "edge": {"ttft_ms": 110.0, "total_ms": 290.0},
                "gpu-pool": None,
            },
            "terms": {"cloud": {**terms, "score": 0.81}, "edge": {**terms, "score": 0.74}},
        },
        {
            "kind": "outcome",
            "time": datetime.fromtimestamp(began_s + 0.3124, UTC).isoformat(timespec="milliseconds"),
            **ids,
            "outcome": "ok",
            "error": None,
            "target": "edge",
            "duration_ms": 312.4,
            "tokens": {"input": 37, "cached": 12, "output": 18},
            "attempts": [
                {"target": "cloud", "outcome": "upstream_cut", "first_content_ms": None, "duration_ms": 40.4},
                {"target": "edge", "outcome": "ok", "first_content_ms": 107.2, "duration_ms": 270.3},
            ],
        },
    ]

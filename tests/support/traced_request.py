"""Writes one request's spans and records as the three programs would: the cloud dies, the edge answers."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode, Tracer, format_trace_id

from gateway.answer import AnswerFacts
from gateway.exchange import Attempt, Decided, Exchange
from gateway.principal import LOCAL
from gateway.records.builders import decision_record, outcome_record
from gateway.records.log import RecordLog
from inference_protocol import paths
from inference_protocol.openai_chat import parse_chat
from inference_protocol.openai_stream import Usage
from inference_protocol.outcome import Outcome
from observability import Telemetry, TelemetrySettings, child, set_up
from routing_policies.policy.loader import load_policy
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.label import Component, DataClass, Label
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.snapshot import Capabilities, Health, Prediction, Snapshot, TargetSnapshot
from routing_policies.verdict import Eligible, Exclusion, ExclusionKind, Scores, Terms
from routing_policies.view import RequestView
from tests.support.verdicts import verdict_for

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
    exchange = _exchange(request_id, server, t0 / 1e9)
    log.write(decision_record(exchange))
    log.write(outcome_record(exchange, 0.3124))
    log.close()
    return trace_id


def _exchange(request_id: str, span: Span, began_s: float) -> Exchange:
    """The request as the gateway holds it at its end; its monotonic clock began with it."""
    exchange = Exchange(request_id, CLIENT_ID, paths.CHAT_COMPLETIONS, 0.0, began_s, span, lambda: 0.3124, LOCAL)
    exchange.decision = _decided()
    cut = Attempt("cloud", 0.0009, span, in_flight=1)
    cut.end(0.0413, Outcome.UPSTREAM_CUT, "upstream_cut")
    facts = AnswerFacts()
    facts.finish_reason, facts.usage = "stop", Usage(prompt_tokens=37, completion_tokens=18, cached_tokens=12)
    answered = Attempt("edge", 0.0416, span, in_flight=1, first_content_at=0.1488, facts=facts)
    answered.end(0.3119, Outcome.OK)
    exchange.attempts += [cut, answered]
    exchange.committed_at, exchange.outcome = 0.1494, Outcome.OK
    return exchange


def _decided() -> Decided:
    label = Label(DataClass.PUBLIC, findings=Component(DataClass.INTERNAL, frozenset({"pii"})), counts={"email": 2})
    request = parse_chat(b'{"model": "m", "messages": [{"role": "user", "content": "x"}]}')
    view = RequestView(
        task=request.task,
        model=request.model,
        stream=True,
        needs=request.needs,
        label=label,
        deadline=Deadline(received_at=0.0, total_at=1.5),
        size=Size(TokenInterval(30, 37, 80), body_bytes=180, parts={"text": 1}),
        output_cap=64,
    )
    policy = load_policy("balanced")
    verdict = replace(
        verdict_for(policy, label, (Eligible("cloud"), Eligible("edge"))),
        excluded={"gpu-pool": Exclusion(ExclusionKind.CONSTRAINT, "does not meet the requirement", "eu-only")},
        scores=Scores(latency=0.31, privacy=0.33, size=0.04),
        terms={"cloud": _terms(0.81), "edge": _terms(0.74)},
    )
    targets = {
        "cloud": _target("cloud", Prediction(95.0, 210.0, 0.2, 0.4, 18.0, (95.0, 210.0))),
        "edge": _target("edge", Prediction(110.0, 290.0, 0.2, 0.4, 18.0, (110.0, 290.0))),
        "gpu-pool": _target("gpu-pool", None),
    }
    return Decided(request, view, policy, Snapshot(targets, now=0.0006), verdict)


def _terms(score: float) -> Terms:
    return Terms(0.9, 0.5, 0.9, 0.5, 0.5, 1.0, preferred=0.0, score=score)


def _target(name: str, prediction: Prediction | None) -> TargetSnapshot:
    return TargetSnapshot(name, Health.UP, Capabilities("m", window=2048), prediction=prediction)

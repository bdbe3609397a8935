import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from opentelemetry import metrics, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags

from observability import Telemetry, TelemetrySettings, child, set_up
from tests.support.otlp_receiver import dead_endpoint, hanging_collector, otlp_receiver

NO_PARENT = trace.INVALID_SPAN


def _spans_on_disk(folder: Path) -> list[dict]:
    return [
        {**span, "service": {a["key"]: a["value"] for a in resource["resource"]["attributes"]}}
        for path in folder.glob("*.jsonl")
        for line in path.read_bytes().splitlines()
        for resource in orjson.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[tuple[Telemetry, object]]:
    """Telemetry whose collector hangs in the middle of an export."""
    with hanging_collector() as collector:
        telemetry = set_up(TelemetrySettings("gateway", tmp_path, collector.endpoint))
        child(telemetry.tracer, NO_PARENT, "first", SpanKind.INTERNAL).end()
        assert collector.asked.wait(10)
        yield telemetry, collector
        telemetry.shutdown(0)


def test_spans_reach_the_disk_while_the_process_runs(tmp_path: Path) -> None:
    telemetry = set_up(TelemetrySettings("gateway", tmp_path, None))
    child(telemetry.tracer, NO_PARENT, "route balanced", SpanKind.INTERNAL).end()
    until = time.monotonic() + 10
    while not _spans_on_disk(tmp_path) and time.monotonic() < until:
        time.sleep(0.01)
    [span] = _spans_on_disk(tmp_path)
    assert span["name"] == "route balanced"
    assert telemetry.shutdown(5)


def test_shutdown_writes_what_is_queued(tmp_path: Path) -> None:
    telemetry = set_up(TelemetrySettings("gateway", tmp_path, None))
    for number in range(1500):
        child(telemetry.tracer, NO_PARENT, f"span {number}", SpanKind.INTERNAL).end()
    assert telemetry.shutdown(30)
    assert len(_spans_on_disk(tmp_path)) == 1500


def test_a_span_says_which_program_and_which_of_its_processes_made_it(tmp_path: Path) -> None:
    for _ in range(2):
        telemetry = set_up(TelemetrySettings("edge", tmp_path, None))
        child(telemetry.tracer, NO_PARENT, "x", SpanKind.INTERNAL).end()
        assert telemetry.shutdown(5)
    first, second = (span["service"] for span in _spans_on_disk(tmp_path))
    assert first["service.name"] == {"stringValue": "edge"}
    assert first["service.version"]["stringValue"]
    assert first["service.instance.id"] != second["service.instance.id"]


def test_trace_files_keep_to_their_cap(tmp_path: Path) -> None:
    telemetry = set_up(TelemetrySettings("edge", tmp_path, None, trace_file_bytes=200_000, trace_files=2))
    for _ in range(4000):
        child(telemetry.tracer, NO_PARENT, "x", SpanKind.INTERNAL).end()
    assert telemetry.shutdown(30)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edge.1.jsonl", "edge.jsonl"]
    assert all(p.stat().st_size <= 200_000 for p in tmp_path.iterdir())


def test_setting_up_leaves_opentelemetrys_globals_alone(tmp_path: Path) -> None:
    telemetry = set_up(TelemetrySettings("edge", tmp_path, None))
    child(telemetry.tracer, NO_PARENT, "x", SpanKind.INTERNAL).end()
    assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
    assert type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"
    assert telemetry.shutdown(5)


def test_the_ratio_drops_new_traces_and_keeps_those_that_a_sampled_parent_began(tmp_path: Path) -> None:
    telemetry = set_up(TelemetrySettings("edge", tmp_path, None, sample_ratio=0.0))
    parent = NonRecordingSpan(SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1)))
    child(telemetry.tracer, NO_PARENT, "dropped", SpanKind.INTERNAL).end()
    child(telemetry.tracer, parent, "kept", SpanKind.SERVER).end()
    assert telemetry.shutdown(5)
    assert [span["name"] for span in _spans_on_disk(tmp_path)] == ["kept"]


def test_without_file_or_collector_there_are_still_trace_ids_to_pass_on() -> None:
    telemetry = set_up(TelemetrySettings("edge", None, None))
    span = child(telemetry.tracer, NO_PARENT, "x", SpanKind.INTERNAL)
    assert span.get_span_context().is_valid
    assert not span.is_recording()
    assert not span.get_span_context().trace_flags.sampled
    assert telemetry.shutdown(5)


def test_a_collector_gets_the_spans_compressed_at_the_standard_path() -> None:
    with otlp_receiver() as receiver:
        telemetry = set_up(TelemetrySettings("gateway", None, receiver.endpoint))
        parent = child(telemetry.tracer, NO_PARENT, "POST /v1/chat/completions", SpanKind.SERVER)
        inner = child(telemetry.tracer, parent, "chat m", SpanKind.CLIENT, attributes={"tidegate.target": "edge"})
        inner.end()
        parent.end()
        assert telemetry.shutdown(10)
        chat, server = receiver.wait_for(2)
        assert (chat.trace_id, chat.parent_span_id) == (server.trace_id, server.span_id)
        assert [(a.key, a.value.string_value) for a in chat.attributes] == [("tidegate.target", "edge")]
        assert receiver.encodings == ["gzip"]
        assert receiver.paths == ["/v1/traces"]


def test_a_proxy_in_the_environment_does_not_get_the_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", dead_endpoint())
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with otlp_receiver() as receiver:
        telemetry = set_up(TelemetrySettings("gateway", None, receiver.endpoint))
        child(telemetry.tracer, NO_PARENT, "x", SpanKind.INTERNAL).end()
        assert telemetry.shutdown(10)
        receiver.wait_for(1)


def test_a_dead_collector_neither_fails_a_span_nor_keeps_it_off_the_disk(tmp_path: Path) -> None:
    telemetry = set_up(TelemetrySettings("gateway", tmp_path, dead_endpoint()))
    child(telemetry.tracer, NO_PARENT, "x", SpanKind.INTERNAL).end()
    telemetry.shutdown(5)
    assert len(_spans_on_disk(tmp_path)) == 1


def test_shutdown_does_not_wait_for_a_collector_that_hangs(hung: tuple[Telemetry, object], tmp_path: Path) -> None:
    telemetry, _ = hung
    child(telemetry.tracer, NO_PARENT, "last", SpanKind.INTERNAL).end()
    # False can only come of giving up: the collector never answers, and its own time limit is ten times as long.
    assert telemetry.shutdown(0.2) is False
    assert [span["name"] for span in _spans_on_disk(tmp_path)] == ["first", "last"]


def test_a_collector_that_hangs_costs_a_span_nothing(hung: tuple[Telemetry, object], tmp_path: Path) -> None:
    def best_of(telemetry: Telemetry) -> float:
        took = []
        for _ in range(15):
            started = time.perf_counter()
            for _ in range(50):
                child(telemetry.tracer, NO_PARENT, "x", SpanKind.INTERNAL).end()
            took.append(time.perf_counter() - started)
        return min(took)

    healthy = set_up(TelemetrySettings("edge", tmp_path, None))
    ratio = best_of(hung[0]) / best_of(healthy)
    assert healthy.shutdown(5)
    assert ratio < 4  # a second queue to put into; waiting for the collector once would make it thousands


def test_a_trace_folder_that_cannot_be_made_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "traces").touch()
    with pytest.raises(OSError, match="traces"):
        set_up(TelemetrySettings("edge", tmp_path / "traces", None))

import dataclasses
import time
from pathlib import Path

import pytest
from opentelemetry.trace import INVALID_SPAN, Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags, format_trace_id

from gateway.cli.trace_search import find_request, find_settled
from gateway.records.log import RecordLog
from observability import TelemetrySettings, child, set_up
from tests.support.traced_request import CLIENT_ID, REQUEST_ID, write_traced_request


def _no_waiting(seconds: float) -> None:
    raise AssertionError("waited")


def test_the_spans_of_all_programs_are_joined(tmp_path: Path) -> None:
    write_traced_request(tmp_path)
    found = find_request(tmp_path, REQUEST_ID)
    assert found is not None
    assert sorted((span.service, span.name.split()[0]) for span in found.spans) == [
        ("edge_runtime", "POST"),
        ("gateway", "POST"),
        ("gateway", "chat"),
        ("gateway", "chat"),
        ("gateway", "route"),
    ]
    assert found.decision is not None
    assert found.outcome is not None
    assert found.is_complete


def test_a_request_goes_by_our_id_the_callers_id_and_the_trace_id(tmp_path: Path) -> None:
    trace_id = write_traced_request(tmp_path)
    by_name = {name: find_request(tmp_path, name) for name in (REQUEST_ID, CLIENT_ID, trace_id)}
    assert {name: found and found.trace_id for name, found in by_name.items()} == dict.fromkeys(by_name, trace_id)


def test_of_several_requests_the_newest_is_the_last_and_goes_by_a_shared_client_id(tmp_path: Path) -> None:
    write_traced_request(tmp_path, "req-old", age_s=90)
    write_traced_request(tmp_path, "req-new", age_s=80)
    for wanted in (None, CLIENT_ID):
        found = find_request(tmp_path, wanted)
        assert found is not None
        assert found.request_id == "req-new"
        assert found.outcome is not None
        assert found.outcome["request_id"] == "req-new"
    other = find_request(tmp_path, "req-old")
    assert other is not None
    assert other.request_id == "req-old"


def test_a_stranger_finds_the_request_by_the_trace_id_it_sent(tmp_path: Path) -> None:
    telemetry = set_up(TelemetrySettings("gateway", tmp_path / "traces", None))
    theirs = SpanContext(0xFACE, 0xB00C, is_remote=True, trace_flags=TraceFlags(1))
    span = telemetry.tracer.start_span("POST", kind=SpanKind.SERVER, links=[Link(theirs)])
    span.set_attribute("tidegate.request_id", "req-9")
    span.end()
    assert telemetry.shutdown(10)
    found = find_request(tmp_path, format_trace_id(0xFACE))
    assert found is not None
    assert found.request_id == "req-9"
    assert found.trace_id == format_trace_id(span.get_span_context().trace_id)


def test_of_a_callers_trace_with_several_requests_only_the_wanted_one_is_shown(tmp_path: Path) -> None:
    telemetry = set_up(TelemetrySettings("gateway", tmp_path / "traces", None))
    caller = NonRecordingSpan(SpanContext(0xFACE, 0xB00C, is_remote=True, trace_flags=TraceFlags(1)))
    for number in (1, 2):
        server = child(telemetry.tracer, caller, f"POST {number}", SpanKind.SERVER)
        server.set_attribute("tidegate.request_id", f"req-{number}")
        child(telemetry.tracer, server, f"route {number}", SpanKind.INTERNAL).end()
        server.end()
    assert telemetry.shutdown(10)
    one, all_of_them = find_request(tmp_path, "req-1"), find_request(tmp_path, format_trace_id(0xFACE))
    assert one is not None
    assert all_of_them is not None
    assert sorted(span.name for span in one.spans) == ["POST 1", "route 1"]
    assert len(all_of_them.spans) == 4


def test_a_request_is_not_complete_without_the_span_that_all_others_stand_under(tmp_path: Path) -> None:
    write_traced_request(tmp_path)
    found = find_request(tmp_path, REQUEST_ID)
    assert found is not None
    without_root = tuple(span for span in found.spans if span.parent_id is not None)
    assert not dataclasses.replace(found, spans=without_root).is_complete


def test_an_unknown_id_and_an_empty_folder_find_nothing(tmp_path: Path) -> None:
    assert find_request(tmp_path, None) is None
    assert find_request(tmp_path, "req-1") is None
    write_traced_request(tmp_path)
    assert find_request(tmp_path, "req-1") is None
    assert find_request(tmp_path, REQUEST_ID[:-1]) is None


def test_an_old_request_is_not_waited_for_though_spans_are_missing(tmp_path: Path) -> None:
    write_traced_request(tmp_path, age_s=60)
    (tmp_path / "traces" / "edge_runtime.jsonl").unlink()
    found = find_settled(tmp_path, REQUEST_ID, wait_s=3, sleep=_no_waiting)
    assert found is not None
    assert not found.is_complete
    assert [span.attributes["tidegate.target"] for span in found.silent_attempts] == ["edge"]


def test_a_complete_request_is_not_waited_for(tmp_path: Path) -> None:
    write_traced_request(tmp_path, age_s=0.4)
    assert find_settled(tmp_path, None, wait_s=3, sleep=_no_waiting) is not None


@pytest.mark.parametrize("late", ["traces/edge_runtime.jsonl", "traces/gateway.jsonl"])
def test_what_comes_late_is_waited_for(tmp_path: Path, late: str) -> None:
    write_traced_request(tmp_path, age_s=0.4)
    held_back = tmp_path / "held-back"
    (tmp_path / late).rename(held_back)
    waits: list[float] = []

    def comes(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            held_back.rename(tmp_path / late)

    began = time.time()
    found = find_settled(tmp_path, REQUEST_ID, wait_s=3, clock=lambda: began, sleep=comes)
    assert found is not None
    assert found.is_complete
    assert len(waits) == 2


def test_waiting_for_a_request_that_still_runs_has_an_end(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "records", durability="process", max_bytes=1000, files=1)
    now = [time.time()]
    ids = {"request_id": "req-1", "client_request_id": None, "trace_id": "a" * 32}
    log.write({"kind": "decision", "time": "2999-01-01T00:00:00+00:00", **ids})
    log.close()

    def passes(seconds: float) -> None:
        now[0] += seconds

    began = now[0]
    found = find_settled(tmp_path, None, wait_s=3, clock=lambda: now[0], sleep=passes)
    assert found is not None
    assert found.outcome is None
    assert now[0] - began == pytest.approx(3, abs=0.2)


def test_spans_of_a_runtime_alone_are_found_without_records(tmp_path: Path) -> None:
    telemetry = set_up(TelemetrySettings("edge_runtime", tmp_path / "traces", None))
    parent = NonRecordingSpan(SpanContext(0xABC, 0x1, is_remote=True, trace_flags=TraceFlags(1)))
    server = child(telemetry.tracer, parent, "POST", SpanKind.SERVER, attributes={"tidegate.request_id": "req-7"})
    child(telemetry.tracer, server, "queue", SpanKind.INTERNAL).end()
    server.end()
    child(telemetry.tracer, INVALID_SPAN, "another", SpanKind.SERVER).end()
    assert telemetry.shutdown(10)
    found = find_request(tmp_path, "req-7")
    assert found is not None
    assert sorted(span.name for span in found.spans) == ["POST", "queue"]

"""Whatever a collector does, what it has room for comes through whole, once and in order, and nobody waits for it."""

from __future__ import annotations

import gzip
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.trace import INVALID_SPAN, SpanKind

from observability import Meters, TelemetrySettings, child, set_up
from observability.collector import Collector
from observability.delivery import OF_DELIVERY, Delivery
from observability.spool import Signal, Spool
from tests.support.otlp_receiver import dead_endpoint, hanging_collector, otlp_receiver

PLENTY = 1 << 20
PROTOBUF = "application/x-protobuf"


def batch(number: int) -> bytes:
    """A request that can be told from others."""
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(name=f"span {number}")
    return request.SerializeToString()


@contextmanager
def delivering(spool: Spool, endpoint: str) -> Iterator[Delivery]:
    delivery = Delivery(spool, Collector(endpoint), first_wait_s=0.01, longest_wait_s=0.05)
    try:
        yield delivery
    finally:
        delivery.stop(0)


def until(check: Callable[[], bool], within_s: float = 20.0) -> None:
    end = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < end
        time.sleep(0.005)


def counted(delivery: Delivery) -> dict[str, float]:
    return {".".join((r.instrument.name.rpartition(".")[2], *r.of)): r.value for r in delivery.read()}


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.otlp.gz"))


def test_what_a_dead_collector_missed_comes_when_it_is_back_whole_and_in_order(tmp_path: Path) -> None:
    endpoint, sent = dead_endpoint(), [batch(number) for number in range(20)]
    with delivering(Spool(tmp_path / "s", PLENTY), endpoint) as delivery:
        for each in sent:
            delivery.send(Signal.TRACES, each)
        waiting = files(tmp_path / "s")
        assert [gzip.decompress(path.read_bytes()) for path in waiting] == sent
        assert counted(delivery)["spooled"] > 0
        with otlp_receiver(int(endpoint.rpartition(":")[2])) as receiver:
            until(lambda: not files(tmp_path / "s"))
        assert receiver.raw == sent
        assert counted(delivery) == {"spooled": 0, "dropped.full": 0, "dropped.refused": 0, "rejected": 0}


def test_what_a_process_left_goes_with_the_next_one_of_its_name(tmp_path: Path) -> None:
    def telemetry(endpoint: str) -> TelemetrySettings:
        return TelemetrySettings("gateway", None, endpoint, spool_dir=tmp_path)

    first = set_up(telemetry(dead_endpoint()))
    child(first.tracer, INVALID_SPAN, "before the restart", SpanKind.INTERNAL).end()
    assert not first.shutdown(5), "the collector has not got it"
    [path] = files(tmp_path / "gateway")
    with otlp_receiver() as receiver:
        second = set_up(telemetry(receiver.endpoint))
        [span] = receiver.wait_for(1)
        assert second.shutdown(5)
    assert span.name == "before the restart"
    assert not path.exists()


def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Spool(tmp_path / "s", PLENTY).put(Signal.TRACES, b"x")
    finally:
        os.umask(before)
    [path] = files(tmp_path / "s")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_the_bound_is_kept_and_the_oldest_go_first(tmp_path: Path) -> None:
    bound = 10 * 4096
    with delivering(Spool(tmp_path / "s", bound), dead_endpoint()) as delivery:
        for number in range(25):
            delivery.send(Signal.TRACES, batch(number))
            taken = sum(path.stat().st_blocks * 512 for path in files(tmp_path / "s"))
            assert max(taken, counted(delivery)["spooled"]) <= bound
        left = [gzip.decompress(path.read_bytes()) for path in files(tmp_path / "s")]
        assert left == [batch(number) for number in range(15, 25)]
        assert counted(delivery)["dropped.full"] == 15


def test_a_full_disk_holds_a_little_in_memory_and_counts_what_it_drops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("observability.spool.write_whole", full)
    monkeypatch.setattr("observability.spool._MEMORY_BYTES", 5 * len(gzip.compress(batch(0), mtime=0)))
    spool = Spool(tmp_path / "s", PLENTY)
    for number in range(9):
        spool.put(Signal.TRACES, gzip.compress(batch(number), mtime=0))
    assert spool.dropped == 4
    with otlp_receiver() as receiver, delivering(spool, receiver.endpoint):
        until(lambda: len(receiver.raw) == 5)
    assert receiver.raw == [batch(number) for number in range(4, 9)]
    assert not list((tmp_path / "s").iterdir())


@pytest.mark.parametrize(
    "refusal",
    [
        (503, PROTOBUF, b""),
        (429, PROTOBUF, b""),
        (401, "text/plain", b"who are you?"),
        (302, "text/html", b""),
        (200, "text/html", b"<html>Please log in</html>"),
    ],
)
def test_what_a_collector_does_not_take_now_is_sent_until_it_does(
    tmp_path: Path, refusal: tuple[int, str, bytes]
) -> None:
    with otlp_receiver() as receiver, delivering(Spool(tmp_path / "s", PLENTY), receiver.endpoint) as delivery:
        receiver.refusals.extend([refusal] * 3)
        delivery.send(Signal.TRACES, batch(1))
        delivery.send(Signal.TRACES, batch(2))
        until(lambda: len(receiver.raw) == 2)
        until(lambda: not files(tmp_path / "s"))
        assert (receiver.raw, receiver.tries) == ([batch(1), batch(2)], 5)


@pytest.mark.parametrize("status", [400, 413, 500])
def test_what_a_collector_refuses_for_good_is_dropped_and_counted_and_holds_nothing_up(
    tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with otlp_receiver() as receiver, delivering(Spool(tmp_path / "s", PLENTY), receiver.endpoint) as delivery:
        receiver.refusals.append((status, "text/plain", b"words of the collector"))
        delivery.send(Signal.TRACES, batch(1))
        delivery.send(Signal.TRACES, batch(2))
        until(lambda: receiver.raw == [batch(2)])
        until(lambda: not files(tmp_path / "s"))
        assert (counted(delivery)["dropped.refused"], receiver.tries) == (1, 2)
    assert f"status {status}" in caplog.text
    assert "words of the collector" not in caplog.text


def test_what_a_collector_leaves_out_of_a_request_is_counted_and_not_sent_again(tmp_path: Path) -> None:
    with otlp_receiver() as receiver, delivering(Spool(tmp_path / "s", PLENTY), receiver.endpoint) as delivery:
        partly = ExportTraceServiceResponse()
        partly.partial_success.rejected_spans = 3
        receiver.answer = partly.SerializeToString()
        delivery.send(Signal.TRACES, batch(1))
        until(lambda: not files(tmp_path / "s"))
        receiver.answer = b"\xff\xff no message of the protocol"
        delivery.send(Signal.TRACES, batch(2))
        until(lambda: not files(tmp_path / "s"))
        assert (counted(delivery)["rejected"], receiver.raw) == (3, [batch(1), batch(2)])


def test_of_metrics_the_last_sums_wait_alone(tmp_path: Path) -> None:
    with delivering(Spool(tmp_path / "s", PLENTY), dead_endpoint()) as delivery:
        for number in range(5):
            delivery.send(Signal.METRICS, b"%d" % number)
        assert [gzip.decompress(path.read_bytes()) for path in files(tmp_path / "s")] == [b"4"]
        assert counted(delivery)["dropped.full"] == 0


def test_a_collector_that_hangs_holds_up_neither_what_is_sent_nor_the_end(tmp_path: Path) -> None:
    with hanging_collector() as collector, delivering(Spool(tmp_path / "s", PLENTY), collector.endpoint) as delivery:
        delivery.send(Signal.TRACES, batch(0))
        assert collector.asked.wait(10)
        for number in range(1, 50):
            delivery.send(Signal.TRACES, batch(number))
        assert len(files(tmp_path / "s")) == 50, "it would still wait for the first"
        assert delivery.stop(0.1) is False
        assert any(each.name == "telemetry-delivery" for each in threading.enumerate()), (
            "it was given up, not waited for"
        )


def test_two_processes_on_one_folder_send_everything_once(tmp_path: Path) -> None:
    old, new = Spool(tmp_path, PLENTY), Spool(tmp_path, PLENTY)
    put = old.put(Signal.TRACES, b"x")
    with old.taken(put) as held:
        found = new.oldest()
        assert found is not None
        with new.taken(found) as nothing:
            assert (held, nothing) == (b"x", None)
        new.forget(found, delete=False)
        old.forget(put)
    assert (old.oldest(), new.oldest()) == (None, None)


def test_the_standard_variables_say_what_a_collector_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=acme,authorization=Bearer%20s3cret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-tenant=other")
    with otlp_receiver() as receiver, delivering(Spool(tmp_path / "s", PLENTY), receiver.endpoint) as delivery:
        delivery.send(Signal.TRACES, batch(1))
        until(lambda: len(receiver.headers) == 1)
        delivery.send(Signal.METRICS, b"")
        until(lambda: len(receiver.headers) == 2)
        until(lambda: not files(tmp_path / "s"))
    traces, metrics = receiver.headers
    assert (traces["x-tenant"], traces["authorization"], metrics["x-tenant"]) == ("acme", "Bearer s3cret", "other")
    assert "authorization" not in metrics


def test_a_collector_whose_certificate_does_not_hold_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with otlp_receiver(tls=context) as receiver:
        with delivering(Spool(tmp_path / "s", PLENTY), receiver.endpoint) as delivery:
            delivery.send(Signal.TRACES, batch(1))
            assert not delivery.stop(20)
        assert (receiver.tries, len(files(tmp_path / "s"))) == (0, 1), "it is kept"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(tmp_path / "ca.pem"))
        with delivering(Spool(tmp_path / "s", PLENTY), receiver.endpoint):
            until(lambda: receiver.raw == [batch(1)])


def test_a_certificate_that_is_not_there_keeps_everything_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(tmp_path / "nothing.pem"))
    with delivering(Spool(tmp_path / "s", PLENTY), "https://127.0.0.1:9") as delivery:
        delivery.send(Signal.TRACES, batch(1))
        delivery.send(Signal.TRACES, batch(2))
        assert not delivery.stop(20)
        assert len(files(tmp_path / "s")) == 2


def test_how_it_stands_is_among_the_metrics(tmp_path: Path) -> None:
    telemetry = set_up(TelemetrySettings("gateway", None, dead_endpoint(), spool_dir=tmp_path, metrics_every_s=1000))
    meters = Meters()
    telemetry.export_metrics(meters)
    child(telemetry.tracer, INVALID_SPAN, "x", SpanKind.INTERNAL).end()
    telemetry.shutdown(5)
    found = {instrument.name: numbers for instrument, numbers in meters.numbers()}
    assert set(found) == {each.name for each in OF_DELIVERY}
    assert found["tidegate.telemetry.spooled"][()] == 2 * 4096, "a batch of spans, and the last sums"

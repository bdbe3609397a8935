"""Readings add up, and are spelt as Prometheus and OpenTelemetry want them."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import MetricsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from observability.meters import Instrument, InstrumentKind, Meters, Reading
from observability.otlp_metrics import MetricsExport
from observability.prometheus import prometheus_text

REQUESTS = Instrument("a.requests", InstrumentKind.COUNTER, "{request}", "Requests.", ("a.kind",))
FAULTS = Instrument("a.faults", InstrumentKind.COUNTER, "{fault}", "Faults.")
TIMES = Instrument("a.duration", InstrumentKind.HISTOGRAM, "s", "Times.", ("a.kind",), (0.1, 1.0))
SIZE = Instrument("a.size", InstrumentKind.GAUGE, "By", "Size.")


class Kept:
    """An exporter that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[MetricsData] = []

    def export(self, metrics_data: MetricsData) -> object:
        self.sent.append(metrics_data)
        return None


def exported(meters: Meters) -> dict[str, Any]:
    kept = Kept()
    MetricsExport(meters, kept, Resource({}), InstrumentationScope("t", "1"), every_s=1000).stop()
    [data] = kept.sent
    return {metric.name: metric.data for metric in data.resource_metrics[0].scope_metrics[0].metrics}


def span(*, sampled: bool) -> NonRecordingSpan:
    return NonRecordingSpan(SpanContext(7, 8, False, TraceFlags(TraceFlags.SAMPLED if sampled else 0)))


def test_a_reading_on_a_bound_is_below_it_and_one_above_all_is_in_the_last_bucket() -> None:
    meters = Meters()
    times = meters.histogram(TIMES)
    for value in (0.1, 0.1000001, 1.0, 99.0):
        times.record(value, ("x",))
    text = prometheus_text(meters).decode()
    counts = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith("a_duration_seconds_bucket")]
    assert counts == ["1.0", "3.0", "4.0"]
    data = exported(meters)["a.duration"]
    assert [(p.bucket_counts, p.count, p.sum) for p in data.data_points] == [([1, 2, 1], 4, pytest.approx(100.2000001))]


def test_a_counter_without_attributes_is_there_before_anything_is_counted() -> None:
    meters = Meters()
    meters.counter(FAULTS)
    meters.counter(REQUESTS)
    text = prometheus_text(meters).decode()
    assert "a_faults_total 0.0" in text
    assert "\na_requests_total{" not in text
    assert set(exported(meters)) == {"a.faults"}


def test_examples_are_of_sampled_spans_alone() -> None:
    meters = Meters()
    times = meters.histogram(TIMES)
    times.record(0.05, ("x",), span(sampled=False))
    times.record(0.5, ("x",), span(sampled=True))
    [point] = exported(meters)["a.duration"].data_points
    assert [(each.value, each.trace_id, each.span_id) for each in point.exemplars] == [(0.5, 7, 8)]


def test_what_is_observed_is_read_anew_each_time() -> None:
    meters, sizes = Meters(), iter([1, 2])
    meters.observe([SIZE], lambda: [Reading(SIZE, next(sizes))])
    assert "a_size_bytes 1.0" in prometheus_text(meters).decode()
    assert "a_size_bytes 2.0" in prometheus_text(meters).decode()


def test_an_attribute_without_a_value_is_left_out_for_a_collector() -> None:
    meters = Meters()
    meters.counter(REQUESTS).add(1, ("",))
    assert exported(meters)["a.requests"].data_points[0].attributes == {}


def test_one_name_is_one_instrument() -> None:
    meters = Meters()
    meters.counter(REQUESTS)
    with pytest.raises(ValueError, match="registered twice"):
        meters.observe([REQUESTS], list)

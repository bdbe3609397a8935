"""Metrics to a collector over OTLP/HTTP: what `Meters` hold, every so often, from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Protocol

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from observability.meters import Buckets, Histogram, Instrument, InstrumentKind, Meters, Numbers

_CUMULATIVE = AggregationTemporality.CUMULATIVE


class MetricExporter(Protocol):
    """Where metrics are sent."""

    def export(self, metrics_data: MetricsData) -> object:
        """Send them; blocks until they are gone or given up."""
        ...


class MetricsExport:
    """Sends what the meters hold until it is stopped. What a dead collector misses is in the next sums anyway."""

    def __init__(
        self, meters: Meters, exporter: MetricExporter, resource: Resource, scope: InstrumentationScope, every_s: float
    ) -> None:
        """Start the thread."""
        self._meters = meters
        self._exporter = exporter
        self._resource = resource
        self._scope = scope
        self._every_s = every_s
        self._started_ns = time.time_ns()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics-export", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send once more, and no more after that. Blocks as long as that takes."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self._send()
        self._send()

    def _send(self) -> None:
        metrics = list(_metrics(self._meters, (self._started_ns, time.time_ns())))
        scope = ScopeMetrics(self._scope, metrics, "")
        self._exporter.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))


def _metrics(meters: Meters, span_ns: tuple[int, int]) -> Iterator[Metric]:
    """Yield what has been measured, over these nanoseconds since the epoch; nothing of what has no reading yet."""
    for instrument, numbers in meters.numbers():
        if numbers:
            yield _of_numbers(instrument, numbers, span_ns)
    for histogram in meters.histograms():
        if histogram.series():
            yield _of_histogram(histogram, span_ns)


def _of_numbers(instrument: Instrument, numbers: Numbers, span_ns: tuple[int, int]) -> Metric:
    points = [NumberDataPoint(_attributes(instrument, of), *span_ns, value) for of, value in numbers.items()]
    counts = instrument.kind is InstrumentKind.COUNTER
    data = Sum(points, _CUMULATIVE, is_monotonic=True) if counts else Gauge(points)
    return Metric(instrument.name, instrument.help, instrument.unit, data)


def _of_histogram(histogram: Histogram, span_ns: tuple[int, int]) -> Metric:
    instrument = histogram.instrument
    points = [_point(instrument, of, series, span_ns) for of, series in histogram.series().items()]
    return Metric(instrument.name, instrument.help, instrument.unit, HistogramData(points, _CUMULATIVE))


def _point(
    instrument: Instrument, of: tuple[str, ...], series: Buckets, span_ns: tuple[int, int]
) -> HistogramDataPoint:
    counts = series.counts.copy()
    return HistogramDataPoint(
        _attributes(instrument, of),
        *span_ns,
        count=sum(counts),
        sum=series.total,
        bucket_counts=counts,
        explicit_bounds=instrument.bounds,
        min=None,  # type: ignore[arg-type]  # optional in the protocol; buckets do not say
        max=None,  # type: ignore[arg-type]  # the same
        exemplars=[
            Exemplar({}, each.value, span_ns[1], span_id=each.span_id, trace_id=each.trace_id)
            for each in series.exemplars.copy().values()
        ],
    )


def _attributes(instrument: Instrument, of: tuple[str, ...]) -> dict[str, str]:
    """The attributes that have a value: an empty one is none, to Prometheus too."""
    return {name: value for name, value in zip(instrument.attributes, of, strict=True) if value}

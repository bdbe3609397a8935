"""What `Meters` hold in Prometheus's text format: its client library writes it, with names spelt in its way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from observability.meters import Histogram, Instrument, InstrumentKind, Meters, Numbers

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
# Units are written out: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
_UNIT_WORDS: Mapping[str, str] = {"s": "seconds", "By": "bytes", "J": "joules"}


def prometheus_text(meters: Meters) -> bytes:
    """Write what has been measured so far."""
    return generate_latest(_Families(meters))


def family_name(instrument: Instrument) -> str:
    """An instrument's name there, without the suffixes of single samples such as `_total` and `_bucket`."""
    name, word = label_name(instrument.name), _UNIT_WORDS.get(instrument.unit)
    return name if word is None else f"{name}_{word}"


def label_name(name: str) -> str:
    """A name as Prometheus allows it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


class _Families(Collector):
    def __init__(self, meters: Meters) -> None:
        self._meters = meters

    def collect(self) -> Iterator[Metric]:
        for instrument, numbers in self._meters.numbers():
            yield _of_numbers(instrument, numbers)
        for histogram in self._meters.histograms():
            yield _of_histogram(histogram)


def _of_numbers(instrument: Instrument, numbers: Numbers) -> Metric:
    kind = CounterMetricFamily if instrument.kind is InstrumentKind.COUNTER else GaugeMetricFamily
    family = kind(family_name(instrument), instrument.help, labels=_labels(instrument))
    for of, value in numbers.items():
        family.add_metric(of, value)
    return family


def _of_histogram(histogram: Histogram) -> Metric:
    instrument = histogram.instrument
    family = HistogramMetricFamily(family_name(instrument), instrument.help, labels=_labels(instrument))
    bounds = [*map(floatToGoString, instrument.bounds), "+Inf"]
    for of, series in histogram.series().items():
        family.add_metric(of, list(zip(bounds, accumulate(series.counts), strict=True)), series.total)
    return family


def _labels(instrument: Instrument) -> list[str]:
    return list(map(label_name, instrument.attributes))

"""Instruments, and what has been counted by them: read by Prometheus and by the export over OTLP.

Names are OpenTelemetry's; Prometheus's spelling follows from them. A reading is a look-up and an addition, since a
request is worth some fifteen of them: 1 µs each, where prometheus-client takes 2 and OpenTelemetry's SDK 12 (`make
bench-metrics`). Readings are taken on one thread; another one may look at them, and then finds each number as it was a
moment ago.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from opentelemetry.trace import Span


class InstrumentKind(StrEnum):
    """How readings add up."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Instrument:
    """What is measured.

    Attributes:
        name: OpenTelemetry's.
        unit: By UCUM; what is counted stands in braces.
        help: One sentence, for people.
        attributes: Names of what readings are told apart by; each has few values.
        bounds: Upper bounds of a histogram's buckets, in the unit, rising.
    """

    name: str
    kind: InstrumentKind
    unit: str
    help: str
    attributes: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


class Exemplar(NamedTuple):
    """A reading of a bucket, and the span that it was taken in."""

    value: float
    trace_id: int
    span_id: int


class Reading(NamedTuple):
    """A value that is read when somebody asks: of an instrument, for these values of its attributes."""

    instrument: Instrument
    value: float
    of: tuple[str, ...] = ()


Numbers = Mapping[tuple[str, ...], float]
"""Value of a counter or gauge by the values of its attributes."""


class Counter:
    """Adds up."""

    __slots__ = ("_sums", "instrument")

    def __init__(self, instrument: Instrument) -> None:
        """Start at nothing; one without attributes is 0 from the start, so that its absence means something else."""
        self.instrument = instrument
        self._sums: dict[tuple[str, ...], float] = {} if instrument.attributes else {(): 0.0}

    def add(self, amount: float, of: tuple[str, ...] = ()) -> None:
        """Add to the sum for these values of the instrument's attributes."""
        self._sums[of] = self._sums.get(of, 0.0) + amount

    def sums(self) -> Numbers:
        """What it has come to so far."""
        return self._sums.copy()


class Buckets:
    """Readings of one histogram for the same values of its attributes.

    Attributes:
        counts: By bucket; the last one is of what is above every bound.
        total: Sum of all readings.
        exemplars: The last one of each bucket.
    """

    __slots__ = ("counts", "exemplars", "total")

    def __init__(self, number: int) -> None:
        """Start with so many empty buckets."""
        self.counts = [0] * number
        self.total = 0.0
        self.exemplars: dict[int, Exemplar] = {}


class Histogram:
    """Counts readings by their size."""

    __slots__ = ("_bounds", "_series", "instrument")

    def __init__(self, instrument: Instrument) -> None:
        """Start with no reading."""
        self.instrument = instrument
        self._bounds = instrument.bounds
        self._series: dict[tuple[str, ...], Buckets] = {}

    def record(self, value: float, of: tuple[str, ...] = (), span: Span | None = None) -> None:
        """Take a reading for these values of the attributes.

        Args:
            value: In the instrument's unit.
            of: Values of its attributes.
            span: Where it was taken; remembered as an example of its bucket, where it is sampled.
        """
        series = self._series.get(of)
        if series is None:
            series = self._series[of] = Buckets(len(self._bounds) + 1)
        bucket = bisect_left(self._bounds, value)
        series.counts[bucket] += 1
        series.total += value
        if span is not None:
            context = span.get_span_context()
            if context.trace_flags.sampled:
                series.exemplars[bucket] = Exemplar(value, context.trace_id, context.span_id)

    def series(self) -> Mapping[tuple[str, ...], Buckets]:
        """What has been read so far, by the values of the attributes."""
        return self._series.copy()


class Meters:
    """One process's readings."""

    def __init__(self) -> None:
        """Start with no instrument."""
        self._names: set[str] = set()
        self._counters: list[Counter] = []
        self._histograms: list[Histogram] = []
        self._observed: list[tuple[Sequence[Instrument], Callable[[], Iterable[Reading]]]] = []

    def counter(self, instrument: Instrument) -> Counter:
        """Register a counter."""
        self._add(instrument)
        self._counters.append(Counter(instrument))
        return self._counters[-1]

    def histogram(self, instrument: Instrument) -> Histogram:
        """Register a histogram."""
        self._add(instrument)
        self._histograms.append(Histogram(instrument))
        return self._histograms[-1]

    def observe(self, instruments: Sequence[Instrument], read: Callable[[], Iterable[Reading]]) -> None:
        """Register counters and gauges whose values `read` returns, whenever somebody asks."""
        for instrument in instruments:
            self._add(instrument)
        self._observed.append((instruments, read))

    def histograms(self) -> Iterator[Histogram]:
        """Yield the histograms."""
        yield from self._histograms

    def numbers(self) -> Iterator[tuple[Instrument, Numbers]]:
        """Yield the counters and gauges as they are now."""
        for counter in self._counters:
            yield counter.instrument, counter.sums()
        for instruments, read in self._observed:
            found: dict[str, dict[tuple[str, ...], float]] = {each.name: {} for each in instruments}
            for reading in read():
                found[reading.instrument.name][reading.of] = float(reading.value)
            for instrument in instruments:
                yield instrument, found[instrument.name]

    def _add(self, instrument: Instrument) -> None:
        if instrument.name in self._names:
            raise ValueError(f"{instrument.name} is registered twice")
        self._names.add(instrument.name)

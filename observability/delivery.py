"""Brings telemetry to a collector: what is measured goes to the spool, and a thread of its own sends what lies there.

So whoever measures never waits for a collector, and one that was down, slow or refused everything finds, when it is
back, all that the spool had room for, the oldest first.
"""

from __future__ import annotations

import gzip
import logging
import random
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics.export import MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from inference_protocol import telemetry_names as names
from observability.collector import Said, Verdict
from observability.meters import Instrument, InstrumentKind, Reading
from observability.spool import Signal, Spool, Spooled

_logger = logging.getLogger(__name__)

_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0

SPOOLED = Instrument(
    names.METRIC_SPOOLED, InstrumentKind.GAUGE, "By", "What waits here for the collector, on the disk and in memory."
)
DROPPED = Instrument(
    names.METRIC_TELEMETRY_DROPPED,
    InstrumentKind.COUNTER,
    "{request}",
    "Requests to the collector that were given up: there was no room for them, or the collector refused them.",
    (names.DROP_REASON,),
)
REJECTED = Instrument(
    names.METRIC_TELEMETRY_REJECTED,
    InstrumentKind.COUNTER,
    "{item}",
    "Spans and readings that the collector did not take out of requests that it took.",
)
OF_DELIVERY = (SPOOLED, DROPPED, REJECTED)


class Destination(Protocol):
    """Where requests are posted."""

    def post(self, signal: Signal, content: bytes) -> Said:
        """Send one; blocks."""
        ...

    def close(self) -> None:
        """Let go of its connections."""
        ...


class Delivery:
    """Sends what lies in a spool until it is stopped."""

    def __init__(
        self,
        spool: Spool,
        collector: Destination,
        *,
        first_wait_s: float = _FIRST_WAIT_S,
        longest_wait_s: float = _LONGEST_WAIT_S,
    ) -> None:
        """Start the thread.

        Args:
            spool: What waits.
            collector: Where it goes.
            first_wait_s: After a failure; doubled with each further one.
            longest_wait_s: Between two tries, whatever the collector asks for.
        """
        self._spool = spool
        self._collector = collector
        self._waits_s = (first_wait_s, longest_wait_s)
        self._draw = random.Random()  # noqa: S311  # it spreads the tries of many devices
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._failures = 0
        self._refused = 0
        self._rejected = 0
        self._metrics: Spooled | None = None
        self._thread = threading.Thread(target=self._run, name="telemetry-delivery", daemon=True)
        self._thread.start()

    def send(self, signal: Signal, content: bytes) -> None:
        """Have one request sent soon; waits for the disk at most."""
        put = self._spool.put(signal, gzip.compress(content, compresslevel=6, mtime=0))
        if signal is Signal.METRICS:
            # They add up from the start, so that the last ones tell all that those before them did.
            if self._metrics is not None:
                self._spool.forget(self._metrics)
            self._metrics = put
        self._woken.set()

    def read(self) -> Iterator[Reading]:
        """Yield how it stands."""
        yield Reading(SPOOLED, self._spool.size)
        yield Reading(DROPPED, self._spool.dropped, ("full",))
        yield Reading(DROPPED, self._refused, ("refused",))
        yield Reading(REJECTED, self._rejected)

    def stop(self, timeout_s: float) -> bool:
        """Try once more what waits, within this time. What is left on the disk goes with the next start.

        Returns:
            Whether the collector has all of it.
        """
        self._stopped.set()
        self._woken.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive() and self._spool.oldest() is None

    def _run(self) -> None:
        wait_s: float | None = 0.0  # what earlier processes left
        while not self._stopped.is_set():
            if wait_s is None:
                self._woken.wait()
            else:
                self._stopped.wait(wait_s)
            self._woken.clear()
            wait_s = self._empty()
        self._empty()
        self._collector.close()

    def _empty(self) -> float | None:
        """Send until nothing waits, or something cannot be sent: then return how long to wait."""
        while (spooled := self._spool.oldest()) is not None:
            with self._spool.taken(spooled) as content:
                if content is None:
                    self._spool.forget(spooled, delete=False)
                    return self._waits_s[0]
                said = self._collector.post(spooled.signal, content)
                if said.verdict is Verdict.NOT_NOW:
                    return self._wait_s(said)
                self._spool.forget(spooled)
            self._note(said)
        return None

    def _wait_s(self, said: Said) -> float:
        first_s, longest_s = self._waits_s
        if not self._failures:
            _logger.warning("the collector does not take telemetry (%s); it is kept and tried again", said.why)
        wait_s: float = min(first_s * 2 ** min(self._failures, 16), longest_s)
        self._failures += 1
        spread_s = wait_s * self._draw.uniform(0.8, 1.2)
        return min(max(spread_s, said.retry_after_s or 0.0), longest_s)

    def _note(self, said: Said) -> None:
        """Account for what is over."""
        if self._failures:
            _logger.info("the collector takes telemetry again")
        self._failures = 0
        if said.verdict is Verdict.REFUSED:
            if not self._refused:
                _logger.warning("the collector refused telemetry for good (%s); it is dropped and counted", said.why)
            self._refused += 1
        if said.rejected:
            if not self._rejected:
                _logger.warning("the collector did not take %d spans or readings of a request", said.rejected)
            self._rejected += said.rejected


class SpanDelivery(SpanExporter):
    """Batches of spans, on their way."""

    def __init__(self, delivery: Delivery) -> None:
        """Know what sends them."""
        self._delivery = delivery

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Hand one batch over."""
        self._delivery.send(Signal.TRACES, encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS


class MetricDelivery:
    """Metrics, on their way."""

    def __init__(self, delivery: Delivery) -> None:
        """Know what sends them."""
        self._delivery = delivery

    def export(self, metrics_data: MetricsData) -> None:
        """Hand them over."""
        self._delivery.send(Signal.METRICS, encode_metrics(metrics_data).SerializeToString())

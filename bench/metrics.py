"""What counting a request costs, and a single reading beside those of the libraries that could take it.

Seconds are those of the processor, so that other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import prometheus_client
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from bench.parts.report import Report
from gateway.answer import AnswerFacts
from gateway.exchange import Attempt, Exchange
from gateway.metrics.requests import RequestMetrics
from inference_protocol import paths
from inference_protocol.openai_stream import Usage
from inference_protocol.outcome import Outcome
from observability.meters import Instrument, InstrumentKind, Meters
from routing_policies.policy.loader import read_policy
from routing_policies.signals.label import DataClass
from tests.support.scripted_runtime import MODEL

ROUNDS = 9
READINGS = 5_000
BOUNDS = tuple(0.01 * 2**step for step in range(14))
OF = ("chat", "tidegate", MODEL, "edge")
NAMES = ("a", "b", "c", "d")
SPAN = NonRecordingSpan(SpanContext(7, 8, False, TraceFlags(TraceFlags.SAMPLED)))


def microseconds(work: Callable[[], object]) -> list[float]:
    """Processor time of one run, round by round."""
    found = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(READINGS):
            work()
        found.append((time.process_time() - started) / READINGS * 1e6)
    return found


def exchange() -> Exchange:
    """A streamed request that went well, as it is when it is settled."""
    policy = read_policy("balanced")
    made = Exchange("req-1", None, paths.CHAT_COMPLETIONS, 1.0, 1.0, SPAN, time.monotonic)
    decided: Any = SimpleNamespace(
        policy=policy,
        request=SimpleNamespace(model=MODEL, stream=True),
        verdict=SimpleNamespace(label=SimpleNamespace(level=DataClass.PUBLIC)),
    )
    facts = AnswerFacts()
    facts.usage = Usage(300, 40, 200)
    attempt = Attempt("edge", 1.001, SPAN, 1, bytes_out=1200, first_content_at=1.1, facts=facts)
    attempt.end(1.6, Outcome.OK)
    made.decision, made.attempts, made.committed_at, made.outcome = decided, [attempt], 1.1, Outcome.OK
    made.parts_ms = {"parse": 0.1, "scan": 0.2, "decide": 0.1, "record": 0.05}
    return made


def readings(report: Report) -> None:
    """One reading of a histogram with four attributes."""
    ours = Meters().histogram(Instrument("a", InstrumentKind.HISTOGRAM, "s", "A.", NAMES, BOUNDS))
    registry = prometheus_client.CollectorRegistry()
    theirs = prometheus_client.Histogram("a", "A.", NAMES, registry=registry, buckets=BOUNDS)
    provider = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    sdk = provider.get_meter("bench").create_histogram("a", explicit_bucket_boundaries_advisory=BOUNDS)
    attributes, context = dict(zip(NAMES, OF, strict=True)), set_span_in_context(SPAN, Context())
    report.raw["reading_us_ours"] = microseconds(lambda: ours.record(0.3, OF, SPAN))
    report.raw["reading_us_prometheus_client"] = microseconds(lambda: theirs.labels(*OF).observe(0.3))
    report.raw["reading_us_opentelemetry_sdk"] = microseconds(lambda: sdk.record(0.3, attributes, context))
    provider.shutdown()


def requests(report: Report) -> None:
    targets: Any = [SimpleNamespace(name="edge", settings=SimpleNamespace(protocol=SimpleNamespace(value="tidegate")))]
    meters = Meters()
    metrics, settled = RequestMetrics(meters, targets, "genai-0.1", tenants=0), exchange()
    rounds = microseconds(lambda: metrics.count(settled, 1.6))
    report.raw["request_us"] = rounds
    report.at_most("counting a settled request", statistics.median(rounds), 20.0, "µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    report = Report("metrics")
    readings(report)
    requests(report)
    report.write(output)


if __name__ == "__main__":
    main()

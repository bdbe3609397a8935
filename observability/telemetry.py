"""One process's tracing, and its metrics' way out: made at its start, after any fork, and shut down at its end."""

from __future__ import annotations

import importlib.metadata
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Tracer

from observability.json_lines_exporter import JsonLinesSpanExporter
from observability.meters import Meters

if TYPE_CHECKING:
    from observability.delivery import Delivery

DISTRIBUTION = "tidegate"
_COLLECTOR_DELAY_MS = 2_000.0
_METRICS_EVERY_S = 10.0
_SHUTDOWN_TIMEOUT_S = 2.0
SPOOL_BYTES = 64 * 1024 * 1024
# Soon enough that `tidegate trace` sees a request right after its answer.
_DISK_DELAY_MS = 200.0
# Spans held while a collector hangs, some 3 KB each; the oldest go first.
_QUEUE = 4096


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """What one process is told about tracing and metrics.

    Attributes:
        service_name: The program, such as `edge_runtime`; also the name of its trace file.
        trace_dir: Folder of the OTLP/JSON lines, or `None` to write none.
        otlp_endpoint: Base URL of a collector's OTLP/HTTP receiver, such as `http://127.0.0.1:4318`, or `None`. The
            standard `OTEL_EXPORTER_OTLP_HEADERS` and certificate variables apply.
        sample_ratio: Share of new traces that is kept, 0 to 1; a sampled parent's children always are.
        trace_file_bytes: Size at which a trace file is rotated.
        trace_files: How many of them are kept.
        metrics_every_s: How often metrics go to the collector.
        spool_dir: Folder for what the collector has not taken yet, in a folder for each program; `None` holds a little
            in memory.
        spool_bytes: What may wait there; the oldest is dropped beyond it.
    """

    service_name: str
    trace_dir: Path | None
    otlp_endpoint: str | None
    sample_ratio: float = 1.0
    trace_file_bytes: int = 16 * 1024 * 1024
    trace_files: int = 4
    metrics_every_s: float = _METRICS_EVERY_S
    spool_dir: Path | None = None
    spool_bytes: int = SPOOL_BYTES


class Telemetry:
    """A process's tracer, and the way to end it; as a context manager it is shut down when the block is left."""

    def __init__(
        self,
        provider: TracerProvider,
        *,
        delivery: Delivery | None = None,
        metrics_every_s: float = _METRICS_EVERY_S,
    ) -> None:
        """Hold `provider`; see `set_up`."""
        self._resource = provider.resource
        self._ends: list[Callable[[], None]] = [provider.shutdown]
        self._delivery = delivery
        self._metrics_every_s = metrics_every_s
        self.tracer: Tracer = provider.get_tracer(DISTRIBUTION, importlib.metadata.version(DISTRIBUTION))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown(_SHUTDOWN_TIMEOUT_S)

    def export_metrics(self, meters: Meters) -> None:
        """Send what these meters hold to the collector from now on, where there is one."""
        if self._delivery is None:
            return
        from observability.delivery import OF_DELIVERY, MetricDelivery  # noqa: PLC0415  # heavy, where asked for alone
        from observability.otlp_metrics import MetricsExport  # noqa: PLC0415  # the same

        meters.observe(OF_DELIVERY, self._delivery.read)
        scope = InstrumentationScope(DISTRIBUTION, importlib.metadata.version(DISTRIBUTION))
        exporter = MetricDelivery(self._delivery)
        self._ends.append(MetricsExport(meters, exporter, self._resource, scope, self._metrics_every_s).stop)

    def shutdown(self, timeout_s: float) -> bool:
        """Write or send what is queued, and stop. Blocks: call it in a thread where there is an event loop.

        Returns:
            Whether everything was handed over in time. If not, what lies in the spool's folder goes with the next
            start, and what is held in memory is lost.
        """
        # The SDK's own bound is 30 s for each processor and cannot be set, so the wait for it is what is bounded.
        workers = [threading.Thread(target=end, name="telemetry-shutdown", daemon=True) for end in self._ends]
        until = time.monotonic() + timeout_s
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(max(0.0, until - time.monotonic()))
        ended = not any(worker.is_alive() for worker in workers)
        delivered = self._delivery is None or self._delivery.stop(max(0.0, until - time.monotonic()))
        return ended and delivered


def set_up(settings: TelemetrySettings) -> Telemetry:
    """Build this process's telemetry. With neither file nor collector, spans carry ids and are not recorded.

    Raises:
        OSError: The trace file cannot be opened, or the spool's folder cannot be made.
    """
    delivery = None if settings.otlp_endpoint is None else _delivery(settings, settings.otlp_endpoint)
    processors = _processors(settings, delivery)
    # On a process's way out its owner calls `shutdown` with a bound; the SDK's exit hook has none.
    provider = TracerProvider(
        sampler=_sampler(settings.sample_ratio, recorded=bool(processors)),
        resource=Resource.create(
            {
                "service.name": settings.service_name,
                "service.version": importlib.metadata.version(DISTRIBUTION),
                "service.instance.id": str(uuid.uuid4()),
            }
        ),
        shutdown_on_exit=False,
        meter_provider=NoOpMeterProvider(),
    )
    for processor in processors:
        provider.add_span_processor(processor)
    return Telemetry(provider, delivery=delivery, metrics_every_s=settings.metrics_every_s)


def _sampler(ratio: float, *, recorded: bool) -> Sampler:
    return ParentBased(TraceIdRatioBased(ratio)) if recorded else ALWAYS_OFF


def _delivery(settings: TelemetrySettings, otlp_endpoint: str) -> Delivery:
    # Protobuf and an HTTP client, 11 MB, that a box without a collector does not pay for.
    from observability.collector import Collector  # noqa: PLC0415  # heavy, and only where asked for
    from observability.delivery import Delivery  # noqa: PLC0415  # the same
    from observability.spool import Spool  # noqa: PLC0415  # the same

    folder = None if settings.spool_dir is None else settings.spool_dir / settings.service_name
    return Delivery(Spool(folder, settings.spool_bytes), Collector(otlp_endpoint))


def _processors(settings: TelemetrySettings, delivery: Delivery | None) -> list[SpanProcessor]:
    processors: list[SpanProcessor] = []
    if settings.trace_dir is not None:
        disk = JsonLinesSpanExporter(
            settings.trace_dir / f"{settings.service_name}.jsonl",
            max_bytes=settings.trace_file_bytes,
            files=settings.trace_files,
        )
        processors.append(_batched(disk, _DISK_DELAY_MS))
    if delivery is not None:
        from observability.delivery import SpanDelivery  # noqa: PLC0415  # heavy, and only where asked for

        processors.append(_batched(SpanDelivery(delivery), _COLLECTOR_DELAY_MS))
    return processors


def _batched(exporter: SpanExporter, delay_ms: float) -> SpanProcessor:
    return BatchSpanProcessor(
        exporter, max_queue_size=_QUEUE, schedule_delay_millis=delay_ms, meter_provider=NoOpMeterProvider()
    )

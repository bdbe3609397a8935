"""Spans and metrics to a collector over OTLP/HTTP."""

from __future__ import annotations

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace.export import SpanExporter

# For one batch with its retries: a collector that hangs holds up the queue this long, and no request at all.
_TIMEOUT_S = 2.0


def collector_exporter(base_url: str) -> SpanExporter:
    """Return an exporter to `base_url`, such as `http://127.0.0.1:4318`; it follows no redirect and uses no proxy."""
    return OTLPSpanExporter(
        endpoint=f"{base_url.rstrip('/')}/v1/traces",
        timeout=_TIMEOUT_S,
        compression=Compression.Gzip,
        session=_session(),
        meter_provider=NoOpMeterProvider(),
    )


def metrics_exporter(base_url: str) -> OTLPMetricExporter:
    """Return an exporter of metrics to `base_url`, of the same kind."""
    return OTLPMetricExporter(
        endpoint=f"{base_url.rstrip('/')}/v1/metrics",
        timeout=_TIMEOUT_S,
        compression=Compression.Gzip,
        session=_session(),
        meter_provider=NoOpMeterProvider(),
    )


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # no proxy, no .netrc: telemetry goes to the host that the settings name, nowhere else
    return session

"""Telemetry set-up that all three programs share: providers, exporters, propagation. Knows nothing of routing.

Nothing here touches OpenTelemetry's globals or its current context: a tracer and a parent span are handed in, so two
programs in one test process, or a stream whose generator is closed by another task, cannot confuse each other.
"""

from observability.meters import Meters
from observability.server_span import ServerSpanMiddleware, server_span
from observability.spans import child, traceparent
from observability.telemetry import Telemetry, TelemetrySettings, set_up

__all__ = [
    "Meters",
    "ServerSpanMiddleware",
    "Telemetry",
    "TelemetrySettings",
    "child",
    "server_span",
    "set_up",
    "traceparent",
]

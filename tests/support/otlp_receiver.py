"""A collector for tests: speaks OTLP/HTTP with the official schema, and keeps what it was sent."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span


class OtlpReceiver:
    """What has arrived so far."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.paths: list[str] = []
        self.encodings: list[str | None] = []
        self.resource_spans: list[ResourceSpans] = []
        self.raw: list[bytes] = []
        self.metrics: dict[str, Metric] = {}
        # What is answered instead of taking a request, one after the other: status, type of the body, body.
        self.refusals: deque[tuple[int, str, bytes]] = deque()
        # What is answered to a request that is taken.
        self.answer = ExportTraceServiceResponse().SerializeToString()
        self.tries = 0
        self.headers: list[dict[str, str]] = []
        self._arrived = threading.Condition()

    def refusal(self) -> tuple[int, str, bytes] | None:
        with self._arrived:
            self.tries += 1
            return self.refusals.popleft() if self.refusals else None

    @property
    def spans(self) -> list[Span]:
        return [span for rs in self.resource_spans for scope in rs.scope_spans for span in scope.spans]

    def take(self, path: str, encoding: str | None, body: bytes) -> None:
        with self._arrived:
            self.paths.append(path)
            self.encodings.append(encoding)
            self.raw.append(body)
            if path == "/v1/metrics":
                self._take_metrics(ExportMetricsServiceRequest.FromString(body))
            else:
                self.resource_spans.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
            self._arrived.notify_all()

    def _take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Keep the latest of each: sums are cumulative."""
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                self.metrics.update({metric.name: metric for metric in scope.metrics})

    def wait_for(self, number: int, timeout_s: float = 10.0) -> list[Span]:
        """Return the spans once there are `number` of them."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.spans) >= number, timeout_s), f"only {len(self.spans)} came"
            return self.spans


@contextmanager
def otlp_receiver(port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[OtlpReceiver]:
    """Run a collector on this port, or a free one; under TLS where it has something to show."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            encoding = self.headers.get("content-encoding")
            receiver.headers.append(dict(self.headers))
            refusal = receiver.refusal()
            if refusal is None:
                receiver.take(self.path, encoding, gzip.decompress(body) if encoding == "gzip" else body)
            status, kind, answer = refusal or (200, "application/x-protobuf", receiver.answer)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            if status == 302:
                self.send_header("location", receiver.endpoint)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver = OtlpReceiver(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class HangingCollector:
    """Takes connections and never answers."""

    def __init__(self, listener: socket.socket) -> None:
        self.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.asked = threading.Event()


@contextmanager
def hanging_collector() -> Iterator[HangingCollector]:
    """Run a collector that hangs; its `asked` is set once somebody has connected."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        collector = HangingCollector(listener)

        def accept() -> None:
            while True:
                try:
                    held.append(listener.accept()[0])
                except OSError:
                    return
                collector.asked.set()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield collector
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()


def dead_endpoint() -> str:
    """Return the address of a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

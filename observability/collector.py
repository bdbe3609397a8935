"""One OTLP/HTTP request to a collector, and what its answer says: taken, refused for good, or not now.

Format: https://opentelemetry.io/docs/specs/otlp/#otlphttp.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import requests
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.util.re import parse_env_headers

from observability.spool import Signal

_TIMEOUT_S = 10.0
_ANSWER_BYTES = 64 * 1024
_OK = range(200, 300)
# Nothing is wrong with what was sent, so it is kept: wrong credentials, a wrong path, a collector that has too much to
# do. By the protocol a client gives up on the first three; here somebody may still mend the settings.
_NOT_NOW = frozenset({401, 403, 404, 407, 408, 429, 502, 503, 504})
_PROTOBUF = "application/x-protobuf"


class Verdict(StrEnum):
    """What became of a request."""

    TAKEN = "taken"
    REFUSED = "refused"  # sending it again would not help
    NOT_NOW = "not now"


@dataclass(frozen=True, slots=True)
class Said:
    """What a collector said.

    Attributes:
        why: For the log: a status or a kind of fault, none of the collector's words.
        rejected: Spans or readings that it did not take out of a request that it took.
        retry_after_s: How long it wants to be left alone.
    """

    verdict: Verdict
    why: str = ""
    rejected: int = 0
    retry_after_s: float | None = None


class Collector:
    """Where telemetry is sent. Used by one thread."""

    def __init__(self, base_url: str) -> None:
        """Know it; the standard variables for headers and certificates apply.

        Args:
            base_url: Such as `http://127.0.0.1:4318`.
        """
        self._base_url = base_url.rstrip("/")
        self._session = requests.Session()
        # No proxy, no .netrc: telemetry goes to the host that the settings name, nowhere else.
        self._session.trust_env = False

    def post(self, signal: Signal, content: bytes) -> Said:
        """Send one request, compressed; blocks for 10 s where nothing comes."""
        headers = {"content-type": _PROTOBUF, "content-encoding": "gzip", **_own_headers(signal)}
        try:
            with self._session.post(
                f"{self._base_url}/v1/{signal}",
                data=content,
                headers=headers,
                timeout=_TIMEOUT_S,
                verify=_variable(signal, "CERTIFICATE") or True,
                cert=_client_certificate(signal),
                allow_redirects=False,  # it would lead away from the host that the settings name
                stream=True,
            ) as response:
                return _said(signal, response)
        # Not all are the library's own: a certificate's file that is not there, a header that cannot be sent.
        except (OSError, ValueError) as error:
            return Said(Verdict.NOT_NOW, type(error).__name__)

    def close(self) -> None:
        """Close its connections."""
        self._session.close()


def _said(signal: Signal, response: requests.Response) -> Said:
    status, kind = response.status_code, response.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = next(response.iter_content(_ANSWER_BYTES), b"")
    if status in _OK:
        if body and kind not in (_PROTOBUF, "application/json"):
            # A captive portal's page, for one: nothing that took telemetry answers so.
            return Said(Verdict.NOT_NOW, f"status {status} with a page that no collector sends")
        return Said(Verdict.TAKEN, rejected=_rejected(signal, body) if kind == _PROTOBUF else 0)
    if status in _NOT_NOW or 300 <= status < 400:
        return Said(Verdict.NOT_NOW, f"status {status}", retry_after_s=_seconds(response.headers.get("retry-after")))
    return Said(Verdict.REFUSED, f"status {status}")


def _rejected(signal: Signal, body: bytes) -> int:
    try:
        if signal is Signal.TRACES:
            return int(ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)
        return int(ExportMetricsServiceResponse.FromString(body).partial_success.rejected_data_points)
    except DecodeError:
        return 0


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _own_headers(signal: Signal) -> Mapping[str, str]:
    return parse_env_headers(_variable(signal, "HEADERS") or "", liberal=True)


def _client_certificate(signal: Signal) -> str | tuple[str, str] | None:
    certificate, key = _variable(signal, "CLIENT_CERTIFICATE"), _variable(signal, "CLIENT_KEY")
    return (certificate, key) if certificate and key else certificate


def _variable(signal: Signal, name: str) -> str | None:
    """The standard variable for this signal, or the one for all of them."""
    of_all = os.environ.get(f"OTEL_EXPORTER_OTLP_{name}")
    return os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}", of_all)

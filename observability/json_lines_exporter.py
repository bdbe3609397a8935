"""Traces on disk, for boxes without a collector and for `tidegate trace`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from observability.otlp_json import export_request
from observability.rotating_file import RotatingFile

_logger = logging.getLogger(__name__)


class JsonLinesSpanExporter(SpanExporter):
    """Appends each batch as one OTLP/JSON line. A disk that fails loses spans, never a request."""

    def __init__(self, path: Path, *, max_bytes: int, files: int) -> None:
        """Open the file.

        Raises:
            OSError: It cannot be opened; better known at the start than never.
        """
        self._file = RotatingFile(path, max_bytes=max_bytes, files=files)
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write one batch."""
        try:
            self._file.append(export_request(spans))
        except OSError as error:
            if not self._failing:
                _logger.warning("spans are lost: the trace file cannot be written: %s", error)
            self._failing = True
            return SpanExportResult.FAILURE
        self._failing = False
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the file."""
        self._file.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: a batch that was exported is in the file."""
        return True

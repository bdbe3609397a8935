"""Requests that were turned away before they reached the way of a request: who asked from where, for what, and why not.

They have a small file of their own, since strangers write it: however many come, they push no record of a request out.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import orjson
from opentelemetry.trace import format_trace_id
from starlette.types import Scope

from gateway.metrics.instruments import DENIALS
from inference_protocol.errors import TidegateError
from observability import Meters, server_span
from observability.rotating_file import RotatingFile

VERSION = 1
FILE_NAME = "denials.jsonl"
_MAX_BYTES = 4 * 1024 * 1024
_FILES = 2
_PATH_LIMIT = 256

_logger = logging.getLogger(__name__)

Denied = Callable[[Scope, TidegateError], None]


class DenialLog:
    """Writes down and counts who was turned away. Used from one event loop."""

    def __init__(self, directory: Path, meters: Meters, *, wall: Callable[[], float]) -> None:
        """Write nothing yet; `wall` gives seconds since the epoch."""
        self._path = directory / FILE_NAME
        self._counter = meters.counter(DENIALS)
        self._wall = wall
        self._failing = False

    def at(self, listener: str) -> Denied:
        """Return what is told of those who are turned away at one of our addresses."""

        def denied(scope: Scope, error: TidegateError) -> None:
            self._counter.add(1, (listener, error.error_type))
            self._write(orjson.dumps(self._record(listener, scope, error), option=orjson.OPT_APPEND_NEWLINE))

        return denied

    def _record(self, listener: str, scope: Scope, error: TidegateError) -> dict[str, object]:
        context, client = server_span(scope).get_span_context(), scope.get("client")
        return {
            "kind": "denial",
            "version": VERSION,
            "time": datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="milliseconds"),
            "trace_id": format_trace_id(context.trace_id) if context.is_valid else None,
            "listener": listener,
            "client": client[0] if client else None,
            "method": scope["method"],
            "path": scope["path"][:_PATH_LIMIT],
            "error": error.code,
            "status": error.http_status,
        }

    def _write(self, line: bytes) -> None:
        try:
            # Opened for each, which are few, so that nobody has to close it.
            with contextlib.closing(RotatingFile(self._path, max_bytes=_MAX_BYTES, files=_FILES)) as file:
                file.append(line)
        except OSError as error:
            if not self._failing:
                _logger.error("who is turned away cannot be written down: %s", error.strerror)
            self._failing = True
        else:
            self._failing = False

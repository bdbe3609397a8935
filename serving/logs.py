"""How a program logs: a line an event on standard error, for people or as JSON for what collects them.

Of an exception its type and the places of its traceback are written, and not its message, which may quote a prompt.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

import orjson
from opentelemetry.trace import Span, format_span_id, format_trace_id

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_FRAMES = 8
_TRACE_ID, _SPAN_ID = "trace_id", "span_id"

_logger = logging.getLogger(__name__)


LogFormat = Literal["text", "json"]


def set_up_logging(log_format: LogFormat = "text", service: str = "") -> None:
    """Log to standard error, each line with its time; of the server loop only what went wrong.

    Args:
        log_format: Of the lines. With JSON also Python's warnings and what nobody caught are such lines.
        service: The program's name, for JSON.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(service) if log_format == "json" else TextLines(_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("asyncio").addFilter(_without_arguments)
    if log_format == "json":
        logging.captureWarnings(True)
        sys.excepthook = _uncaught
        threading.excepthook = _uncaught_in_thread


def in_trace(span: Span) -> Mapping[str, str]:
    """Return what a logger's `extra` is for a line about this span."""
    context = span.get_span_context()
    if not context.is_valid:
        return {}
    return {_TRACE_ID: format_trace_id(context.trace_id), _SPAN_ID: format_span_id(context.span_id)}


def places(error: BaseException) -> str:
    """Return the last places of an exception's traceback."""
    return "".join(traceback.format_tb(error.__traceback__)[-_FRAMES:])


class TextLines(logging.Formatter):
    """Lines for people."""

    def formatException(self, ei: Any) -> str:
        """Name the exception, and where it came from."""
        error = ei[1]
        return "" if error is None else f"{type(error).__qualname__} at\n{places(error)}"


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def __init__(self, service: str) -> None:
        """Know the program's name."""
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in (_TRACE_ID, _SPAN_ID) if (value := getattr(record, name, None)) is not None}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            line |= {"error_type": type(error).__qualname__, "places": places(error)}
        return orjson.dumps(line).decode()


def _without_arguments(record: logging.LogRecord) -> bool:
    """Leave out what the event loop writes of a task that failed: with what it was called, and what it failed with."""
    if record.exc_info:
        record.msg, record.args = "Nobody caught what went wrong in a task or a callback", ()
    return True


def _uncaught(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    _logger.critical("The program ends: nobody caught what went wrong", exc_info=error)


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread is not None else "?"
    _logger.error("The thread %s ends: nobody caught what went wrong", name, exc_info=args.exc_value)

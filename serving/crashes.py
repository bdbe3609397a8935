"""How a fault of our own is logged: what it is and where it happened, and not its message, which may quote a prompt."""

from __future__ import annotations

import logging

from opentelemetry.trace import INVALID_SPAN, Span

from serving.logs import in_trace, places

# What the caller is told.
CRASHED = "Tidegate failed; its log has the request id."


def log_crash(logger: logging.Logger, what: str, error: BaseException, span: Span = INVALID_SPAN) -> None:
    """Log an exception that nobody expected.

    Args:
        logger: Of the module that caught it.
        what: What it ended, such as `request req-1`.
        error: Of which only the type and the last places of its traceback are written.
        span: Of the request that it ended.
    """
    where = places(error)
    logger.error("%s failed with %s at\n%s", what, type(error).__qualname__, where, extra=in_trace(span))

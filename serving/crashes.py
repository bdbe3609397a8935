"""How a fault of our own is logged: what it is and where it happened, and not its message, which may quote a prompt."""

from __future__ import annotations

import logging
import traceback

# What the caller is told.
CRASHED = "Tidegate failed; its log has the request id."

_FRAMES = 8


def log_crash(logger: logging.Logger, what: str, error: BaseException) -> None:
    """Log an exception that nobody expected.

    Args:
        logger: Of the module that caught it.
        what: What it ended, such as `request req-1`.
        error: Of which only the type and the last places of its traceback are written.
    """
    places = "".join(traceback.format_tb(error.__traceback__)[-_FRAMES:])
    logger.error("%s failed with %s at\n%s", what, type(error).__qualname__, places)

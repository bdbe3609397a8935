"""What every program does before it serves."""

from __future__ import annotations

import logging

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class StartRefused(Exception):
    """The program cannot start as it was told to. The message says why and what to do."""


def set_up_logging() -> None:
    """Log to standard error, each line with its time; of the server loop only what went wrong."""
    logging.basicConfig(level=logging.INFO, format=_FORMAT)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)

"""What callers have taken of their tokens, on the disk: a restart, or the end of the process, gives nobody a new day.

It is written at most once a second, so a process that dies forgets the last second. What requests had reserved as it
died counts as taken. A file that cannot be read is said so, and nothing counts as taken.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

from gateway.quota import Kept, Quotas
from observability.disk import write_whole

_logger = logging.getLogger(__name__)

_EVERY_S = 1.0


class UsageFile:
    """Moments at which what was taken is over, in seconds since the epoch, by account and window."""

    def __init__(self, path: Path, *, wall: Callable[[], float]) -> None:
        """Write nothing yet; `wall` gives seconds since the epoch."""
        self._path = path
        self._wall = wall
        self._written: Kept = {}

    def load(self) -> Kept:
        """Return the seconds that what was taken is still taken for, by account and window."""
        now = self._wall()
        try:
            found = json.loads(self._path.read_bytes())
            return {
                str(name): {str(window): max(0.0, float(until) - now) for window, until in taken.items()}
                for name, taken in found.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as exc:
            _logger.error("What callers have taken cannot be read, and counts from nothing: %s", type(exc).__name__)
            return {}

    async def run(self, quotas: Quotas) -> None:
        """Keep it, until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await asyncio.to_thread(self.write, quotas.kept())

    def write(self, kept: Kept) -> None:
        """Write it, where it has changed. A disk that refuses costs a line in the log."""
        now = self._wall()
        moments = {name: {window: round(now + s, 1) for window, s in taken.items()} for name, taken in kept.items()}
        if moments == self._written:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(moments).encode(), lasting=False)
        except OSError as exc:
            _logger.error("What callers have taken could not be kept: %s", exc.strerror)
        else:
            self._written = moments

"""The requests that are being worked on, and the wait for their end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from inference_protocol.errors import Draining, Overloaded

_logger = logging.getLogger(__name__)


class InFlight:
    """Counts requests in and out. Nothing queues here."""

    def __init__(self, limit: int | None = None) -> None:
        """Let at most `limit` requests in at once; any number where it is `None`."""
        self._limit = limit
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False

    @property
    def count(self) -> int:
        """Requests being worked on."""
        return self._count

    @property
    def draining(self) -> bool:
        """Whether nobody is let in any more."""
        return self._draining

    def refuse_if_draining(self) -> None:
        """Return if requests are still taken.

        Raises:
            Draining: They are not.
        """
        if self._draining:
            raise Draining("This server is shutting down; try again elsewhere, or later.")

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place for the length of a request.

        Raises:
            Draining: The program is shutting down.
            Overloaded: Every place is taken.
        """
        self.refuse_if_draining()
        if self._limit is not None and self._count >= self._limit:
            raise Overloaded(f"{self._limit} requests are being worked on already; try again.")
        self._count += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._idle.set()

    async def drain(self, timeout_s: float) -> bool:
        """Let nobody in any more and wait for those inside; say whether all left within `timeout_s`."""
        self._draining = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            _logger.warning("%d requests did not finish within %g s", self._count, timeout_s)
            return False
        return True

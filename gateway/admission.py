"""How many requests are worked on at once; one more is told to come back, not kept waiting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from inference_protocol.errors import Draining, Overloaded

RETRY_AFTER_S = 1.0

_logger = logging.getLogger(__name__)


class Admission:
    """Counts requests in and out. Nothing queues here: the queues are the runtimes', where they can be measured."""

    def __init__(self, limit: int) -> None:
        """Admit at most `limit` requests at once."""
        self._limit = limit
        self._inside = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False

    @property
    def inside(self) -> int:
        """Requests being worked on."""
        return self._inside

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place for the length of a request.

        Raises:
            Draining: The gateway is shutting down.
            Overloaded: Every place is taken.
        """
        if self.draining:
            raise Draining(
                "The gateway is shutting down.",
                retry_after_s=RETRY_AFTER_S,
                details={"reason": "rejected-shutting-down"},
            )
        if self._inside >= self._limit:
            raise Overloaded(
                f"The gateway is working on {self._limit} requests already.",
                retry_after_s=RETRY_AFTER_S,
                details={"reason": "rejected-saturated"},
            )
        self._inside += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._idle.set()

    async def drain(self, timeout_s: float) -> None:
        """Admit nobody any more, and return when those inside have left or their time is up."""
        self.draining = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            _logger.warning("%d requests did not finish within %g s and are cut off", self._inside, timeout_s)

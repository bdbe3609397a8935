"""The requests that are being worked on, what their bodies take, and the wait for their end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inference_protocol.errors import Draining, Overloaded

_NEWEST = 0.1  # weight of the newest request's length in the running mean
_LONGEST_RETRY_S = 30.0

_logger = logging.getLogger(__name__)


class Place:
    """One request's place. What it takes of the bytes that all bodies share, it gives back with the place."""

    __slots__ = ("_in_flight", "bytes")

    def __init__(self, in_flight: InFlight) -> None:
        """Take nothing yet."""
        self._in_flight = in_flight
        self.bytes = 0

    def take(self, count: int) -> None:
        """Take so many bytes more.

        Raises:
            Overloaded: All bodies together would be too large.
        """
        self._in_flight.take(count)
        self.bytes += count


class InFlight:
    """Counts requests and the bytes of their bodies in and out. Nothing queues here."""

    def __init__(
        self, limit: int | None = None, max_bytes: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Let at most `limit` requests in at once, with `max_bytes` of bodies together; any number where `None`."""
        self._limit = limit
        self._max_bytes = max_bytes
        self._clock = clock
        self._count = 0
        self._bytes = 0
        self._mean_s = 0.0
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False

    @property
    def count(self) -> int:
        """Requests being worked on."""
        return self._count

    @property
    def bytes(self) -> int:
        """Of their bodies, together."""
        return self._bytes

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
    def place(self) -> Iterator[Place]:
        """Hold a place for the length of a request.

        Raises:
            Draining: The program is shutting down.
            Overloaded: Every place is taken.
        """
        self.refuse_if_draining()
        if self._limit is not None and self._count >= self._limit:
            raise self._overloaded(f"{self._limit} requests are being worked on already; try again.")
        began = self._clock()
        self._count += 1
        self._idle.clear()
        place = Place(self)
        try:
            yield place
        finally:
            self._bytes -= place.bytes
            self._count -= 1
            self._mean_s += _NEWEST * (self._clock() - began - self._mean_s)
            if not self._count:
                self._idle.set()

    def take(self, count: int) -> None:
        """Count bytes of a body in.

        Raises:
            Overloaded: All bodies together would be too large.
        """
        if self._max_bytes is not None and self._bytes + count > self._max_bytes:
            raise self._overloaded(
                "The bodies of the requests that are being worked on take all the memory that they may; try again.",
                reason="rejected-memory",
            )
        self._bytes += count

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

    def _overloaded(self, message: str, reason: str | None = None) -> Overloaded:
        """Those inside are likely gone after as long as a request takes."""
        retry_after_s = min(_LONGEST_RETRY_S, max(1.0, self._mean_s))
        return Overloaded(message, retry_after_s=retry_after_s, details={"reason": reason} if reason else None)

"""The caller's end of one request: events arrive on the event loop, whichever thread made them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from inference_protocol.timings import Timings
from runtime_server.engine import TokenEvent


class TokenStream:
    """A `runtime_server.engine.Generation`. It belongs to the event loop.

    Attributes:
        cached_tokens: Prompt tokens that needed no reading.
    """

    def __init__(self, cancel: Callable[[], None], timings: Callable[[], Timings]) -> None:
        """Begin with no event.

        Args:
            cancel: Tells the engine that nobody wants more. Not called once the last event came.
            timings: What has been measured so far.
        """
        self._cancel = cancel
        self._timings = timings
        self._events: asyncio.Queue[TokenEvent] = asyncio.Queue()
        self._over = False
        self.cached_tokens = 0

    async def __aiter__(self) -> AsyncIterator[TokenEvent]:
        """Yield events to the last. Leaving early, by `break`, an exception or the collector, cancels the request."""
        try:
            while not self._over:
                event = await self._events.get()
                self._over = event.finish is not None
                yield event
        finally:
            self.cancel()

    def put(self, event: TokenEvent) -> None:
        """Hand on an event."""
        self._events.put_nowait(event)

    def cancel(self) -> None:
        """Stop within one step, whether queued, reading the prompt or generating. Safe to call twice."""
        if not self._over:
            self._cancel()

    @property
    def timings(self) -> Timings:
        """What has been measured so far; final once the last event came."""
        return self._timings()

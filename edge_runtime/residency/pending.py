"""A request whose model is still being loaded: it waits as long as its deadline lets it, then goes to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from inference_protocol.timings import Timings
from runtime_server.engine import FinishReason, Generation, GenerationJob, NotReady, QueueFull, TokenEvent

_NOT_LOADED = TokenEvent(finish=FinishReason.ERROR, error="The model could not be loaded.")


class PendingGeneration:
    """A `runtime_server.engine.Generation` before its engine is there. It belongs to the event loop."""

    def __init__(
        self,
        job: GenerationJob,
        loaded: Awaitable[Callable[[GenerationJob], Generation] | None],
        *,
        left: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        """Begin to wait.

        Args:
            job: What is asked for.
            loaded: Gives the way to submit it, or `None` where loading failed.
            left: Called once, when it waits no longer.
            clock: Seconds that agree with the event loop's.
        """
        self._job = job
        self._clock = clock
        self._since = clock()
        self._waited_ms = 0.0
        self._cancelled = asyncio.Event()
        self._inner: Generation | None = None
        self._waiting = asyncio.ensure_future(self._wait(loaded, left))

    async def __aiter__(self) -> AsyncIterator[TokenEvent]:
        """Yield the engine's events, or the one that says why there are none."""
        try:
            end = await asyncio.shield(self._waiting)
            if end is not None:
                yield end
                return
            assert self._inner is not None
            async for event in self._inner:
                yield event
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Stop waiting, or stop the generation. Safe to call twice."""
        self._cancelled.set()
        if self._inner is not None:
            self._inner.cancel()

    @property
    def timings(self) -> Timings:
        """The engine's; waiting for the model counts as waiting for a slot."""
        inner = Timings() if self._inner is None else self._inner.timings
        return replace(inner, queue_ms=inner.queue_ms + self._waited_ms)

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that were in the cache already."""
        return 0 if self._inner is None else self._inner.cached_tokens

    async def _wait(
        self, loaded: Awaitable[Callable[[GenerationJob], Generation] | None], left: Callable[[], None]
    ) -> TokenEvent | None:
        """Return the event that ends it, or `None` once the engine has it."""
        load, cancel = asyncio.ensure_future(loaded), asyncio.create_task(self._cancelled.wait())
        try:
            timeout = None if self._job.deadline is None else max(0.0, self._job.deadline - self._clock())
            await asyncio.wait([load, cancel], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if self._cancelled.is_set():
                return TokenEvent(finish=FinishReason.CANCELLED)
            if not load.done():
                return TokenEvent(finish=FinishReason.LENGTH)
            submit = load.result()
            try:
                self._inner = None if submit is None else submit(self._job)
            except (NotReady, QueueFull):
                self._inner = None
            return _NOT_LOADED if self._inner is None else None
        finally:
            cancel.cancel()
            self._waited_ms = (self._clock() - self._since) * 1000
            left()

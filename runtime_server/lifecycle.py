"""Where the runtime stands in its life: starting, ready, draining or failed; and what is running meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from inference_protocol.errors import Draining, Overloaded, Unavailable
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus
from runtime_server.engine import Engine, Generation, GenerationJob

_RETRY_AFTER_S = 1.0
_LOOK_EVERY_S = 1.0

_logger = logging.getLogger(__name__)


class Lifecycle:
    """Owns the engine from its start to its stop, and every generation in between."""

    def __init__(self, engine: Engine) -> None:
        """Own `engine`, which nobody else starts or stops."""
        self._engine = engine
        self._failure: str | None = None
        self._draining = False
        self._running: list[Generation] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self.failed = asyncio.Event()
        """Set once the engine could not start, or died afterwards: it is of no more use."""

    @asynccontextmanager
    async def engine_running(self) -> AsyncIterator[None]:
        """Start the engine in the background; stop it at the end of the block."""
        supervisor = asyncio.create_task(self._supervise())
        try:
            yield
        finally:
            supervisor.cancel()
            await asyncio.wait([supervisor])
            await self._engine.stop()

    def state(self) -> RuntimeState:
        """Return the engine's state, or ours where we know better."""
        state = self._engine.state()
        if self._failure is not None:
            return state.model_copy(update={"status": RuntimeStatus.FAILED, "detail": self._failure})
        if self._draining:
            detail = f"{len(self._running)} requests still run"
            return state.model_copy(update={"status": RuntimeStatus.DRAINING, "detail": detail})
        return state

    def refuse_unless_ready(self) -> RuntimeState:
        """Return the state if requests are taken now.

        Raises:
            Draining: The runtime is shutting down.
            Unavailable: The model is not loaded, or never will be.
        """
        state = self.state()
        if state.status is RuntimeStatus.DRAINING:
            raise shutting_down()
        if state.status is not RuntimeStatus.READY:
            raise Unavailable(
                f"The model cannot answer: the runtime is {state.status.value}.",
                retry_after_s=_RETRY_AFTER_S,
                details={"reason": "rejected-not-ready"},
            )
        return state

    @contextmanager
    def admitted(self, job: GenerationJob) -> Iterator[Generation]:
        """Hand a job to the engine; whatever happens in the block, at its end the generation has ended too.

        Raises:
            Draining: The runtime is shutting down.
            Overloaded: The queue is full.
            Unavailable: The model is not loaded.
        """
        self.refuse_unless_ready()
        try:
            generation = self._engine.submit(job)
        except Overloaded as exc:
            raise Overloaded(
                exc.message,
                retry_after_s=exc.retry_after_s or _RETRY_AFTER_S,
                details={"reason": "rejected-saturated"},
            ) from None
        self._running.append(generation)
        self._idle.clear()
        try:
            yield generation
        finally:
            generation.cancel()
            self._running.remove(generation)
            if not self._running:
                self._idle.set()

    async def drain(self, timeout_s: float) -> None:
        """Take no new requests, let the running ones finish, and cancel those that have not within `timeout_s`."""
        self._draining = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            _logger.warning("Cancelling %d requests that did not finish within %g s", len(self._running), timeout_s)
            self.cancel_running()

    def cancel_running(self) -> None:
        """Cancel every generation."""
        for generation in self._running:
            generation.cancel()

    async def _supervise(self) -> None:
        try:
            await self._engine.start()
        except Exception as exc:
            _logger.exception("The engine could not start")
            self._failure = f"{type(exc).__name__}: {exc}"
        else:
            _logger.info("Ready")
            while (state := self._engine.state()).status is not RuntimeStatus.FAILED:  # noqa: ASYNC110 - nothing to wait on: an engine only tells its state
                await asyncio.sleep(_LOOK_EVERY_S)
            self._failure = state.detail or "The engine failed."
            _logger.error("The engine failed: %s", self._failure)
        self.failed.set()


def shutting_down() -> Draining:
    """Return the error for requests that a shutdown turns away or ends."""
    return Draining(
        "The runtime is shutting down; try again elsewhere or later.",
        retry_after_s=_RETRY_AFTER_S,
        details={"reason": "rejected-shutting-down"},
    )

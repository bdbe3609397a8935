"""Where the runtime stands in its life: starting, ready, draining or failed; and what is running meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

from inference_protocol.engine_steps import EngineStep
from inference_protocol.errors import Overloaded, Unavailable
from inference_protocol.runtime_state import ProviderUse, RuntimeState, RuntimeStatus, ServedModel
from runtime_server.answer import GenerationCancelled, NothingToGenerate
from runtime_server.engine import Engine, Generation, GenerationJob, NotReady, QueueFull
from serving.in_flight import InFlight
from serving.start import StartRefused

_RETRY_AFTER_S = 1.0
_LOOK_EVERY_S = 1.0

_logger = logging.getLogger(__name__)


class Work(Protocol):
    """Something that is done for a request."""

    def cancel(self) -> object:
        """End it; safe to call twice."""
        ...


class Admission:
    """One request that was let in, and what is done for it."""

    def __init__(self, engine: Engine) -> None:
        """Begin with nothing."""
        self._engine = engine
        self._work: list[Work] = []
        self._cancelled = False

    def begin(self, job: GenerationJob) -> Generation:
        """Hand a job to the engine.

        Raises:
            GenerationCancelled: The request was cancelled meanwhile.
            Overloaded: The queue is full.
            Unavailable: The model that the job is meant for is gone.
        """
        if self._cancelled:
            raise GenerationCancelled
        if job.max_tokens == 0 and not job.prompt_logprobs:
            return NothingToGenerate()
        try:
            generation = self._engine.submit(job)
        except QueueFull:
            raise Overloaded("Every place in the queue is taken; try again.") from None
        except NotReady:
            raise Unavailable(
                "The model was exchanged while the request was read; try again.",
                retry_after_s=_RETRY_AFTER_S,
                details={"reason": "rejected-not-ready"},
            ) from None
        self._work.append(generation)
        return generation

    def hold(self, work: Work) -> None:
        """End this with the request, at once where that was cancelled."""
        self._work.append(work)
        if self._cancelled:
            work.cancel()

    def cancel(self) -> None:
        """End everything that is done for the request."""
        self._cancelled = True
        for work in self._work:
            work.cancel()


class Lifecycle:
    """Owns the engine from its start to its stop, and every generation in between."""

    def __init__(
        self, engine: Engine, beside: Sequence[ServedModel] = (), uses: Callable[[], Sequence[ProviderUse]] = tuple
    ) -> None:
        """Begin before the engine's start.

        Args:
            engine: Which nobody else starts or stops.
            beside: Models that something else serves here.
            uses: Tells which execution provider runs what, where there is a choice.
        """
        self._engine = engine
        self._uses = uses
        self._beside = tuple(beside)
        self._failure: str | None = None
        self._in_flight = InFlight()
        self._running: list[Admission] = []
        # Set once the engine could not start, or died afterwards: it is of no more use.
        self.failed = asyncio.Event()

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

    def steps(self) -> Sequence[EngineStep]:
        """Return what the engine did lately."""
        return self._engine.steps()

    def state(self) -> RuntimeState:
        """Return the engine's state, or ours where we know better."""
        state = self._engine.state()
        uses = tuple(self._uses())
        if uses:
            state = state.model_copy(update={"providers": uses})
        if self._beside and state.models:  # the engine's own model stays the first
            state = state.model_copy(update={"models": (*state.models, *self._beside)})
        if self._failure is not None:
            return state.model_copy(update={"status": RuntimeStatus.FAILED, "detail": self._failure})
        if self._in_flight.draining:
            detail = f"{self._in_flight.count} requests still run"
            return state.model_copy(update={"status": RuntimeStatus.DRAINING, "detail": detail})
        return state

    def refuse_unless_ready(self) -> RuntimeState:
        """Return the state if requests are taken now. Nobody else decides that.

        Raises:
            Draining: The runtime is shutting down.
            Unavailable: The model is not loaded, or never will be.
        """
        self._in_flight.refuse_if_draining()
        state = self.state()
        if state.status is not RuntimeStatus.READY:
            raise Unavailable(
                f"The model cannot answer: the runtime is {state.status.value}.",
                retry_after_s=_RETRY_AFTER_S,
                details={"reason": "rejected-not-ready"},
            )
        return state

    @contextmanager
    def admitted(self) -> Iterator[Admission]:
        """Let a request in; whatever happens in the block, at its end all that it had generated has ended too.

        Raises:
            Draining: The runtime is shutting down.
            Unavailable: The model is not loaded.
        """
        self.refuse_unless_ready()
        with self._in_flight.place():
            admission = Admission(self._engine)
            self._running.append(admission)
            try:
                yield admission
            finally:
                admission.cancel()
                self._running.remove(admission)

    async def drain(self, timeout_s: float) -> None:
        """Take no new requests, let the running ones finish, and cancel those that have not within `timeout_s`."""
        if not await self._in_flight.drain(timeout_s):
            self.cancel_running()

    def cancel_running(self) -> None:
        """Cancel every generation."""
        for admission in self._running:
            admission.cancel()

    async def _supervise(self) -> None:
        try:
            await self._engine.start()
        except Exception as exc:
            # What a person has to mend says so itself; where it was found says nothing more.
            _logger.error(
                "The engine could not start: %s", exc, exc_info=None if isinstance(exc, StartRefused) else exc
            )
            self._failure = f"{type(exc).__name__}: {exc}"
        else:
            _logger.info("Ready")
            while (state := self._engine.state()).status is not RuntimeStatus.FAILED:  # noqa: ASYNC110  # an engine only tells its state
                await asyncio.sleep(_LOOK_EVERY_S)
            self._failure = state.detail or "The engine failed."
            _logger.error("The engine failed: %s", self._failure)
        self.failed.set()

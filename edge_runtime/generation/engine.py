"""The slot engine: several requests at once on one ONNX Runtime session, which one thread owns.

    event loop                                  the engine's thread
    submit, cancel, stop ── commands (queue) ──▶ scheduler: prefill, decode
    TokenStream ◀── one callback per run ─────── what each row said

The session lives and dies inside that thread, so it can never be freed under a run. What the event loop knows of the
engine (status, streams) changes on the event loop only.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from edge_runtime.generation.interruption import Interruption
from edge_runtime.generation.loading import EngineSettings, LoadedModel, load
from edge_runtime.generation.occupancy import Occupancy
from edge_runtime.generation.request import Request
from edge_runtime.generation.scheduler import News, Scheduler
from inference_protocol.engine_steps import EngineStep
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus
from runtime_server.engine import LONGEST_STEP_S, FinishReason, GenerationJob, NotReady, TokenEvent
from runtime_server.moments import Moments
from runtime_server.token_stream import TokenStream

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Submit:
    request: Request


@dataclass(frozen=True, slots=True)
class _Cancel:
    request: Request


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Command = _Submit | _Cancel | _Stop


class SlotEngine:
    """A `runtime_server.engine.Engine` on ONNX Runtime."""

    def __init__(self, settings: EngineSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Build an engine; `start` loads the model.

        Args:
            settings: What an operator chooses.
            clock: Seconds that agree with the event loop's `time()`, in which deadlines are told.
        """
        self._settings = settings
        self._clock = clock
        self._status = RuntimeStatus.STARTING
        self._detail: str | None = None
        self._loaded: LoadedModel | None = None
        self._scheduler: Scheduler | None = None
        self._interruption = Interruption()
        self._occupancy = Occupancy(settings.slots, settings.waiting_limit)
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._streams: dict[Request, TokenStream] = {}
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        """Verify, load and measure the model.

        Raises:
            ModelMissing: The folder holds no complete model.
            ModelDamaged: A file is not what the manifest says.
            ModelUnsupported: The graph is not one that this engine can run.
        """
        loop = asyncio.get_running_loop()
        loaded: asyncio.Future[LoadedModel] = loop.create_future()
        self._detail = "The model is being verified, loaded and measured."
        self._thread = threading.Thread(target=self._main, args=(loop, loaded), name="generation", daemon=True)
        self._thread.start()
        await loaded

    async def stop(self) -> None:
        """Cancel what runs, wait for the run in flight, free the model, and let go of its folder."""
        self._status, self._detail = RuntimeStatus.DRAINING, None
        self._commands.put(_Stop())
        if self._loaded is not None:
            self._interruption.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, LONGEST_STEP_S)
            if self._thread.is_alive():
                _logger.error("A run of the model did not end within %.0f s; it is left to itself.", LONGEST_STEP_S)
            elif self._loaded is not None:
                self._loaded.lease.release()
        self._end_all(TokenEvent(finish=FinishReason.CANCELLED))

    def submit(self, job: GenerationJob) -> TokenStream:
        """Admit a request.

        Raises:
            QueueFull: Every slot and every place in the queue is taken.
            NotReady: The model is not loaded, or the engine failed or stops.
        """
        if self._status is not RuntimeStatus.READY:
            raise NotReady
        self._occupancy.admit(len(job.prompt))
        request = Request(job, Moments(self._clock()))
        stream = self._streams[request] = TokenStream(
            functools.partial(self._cancel, request), lambda: request.moments.timings
        )
        self._commands.put(_Submit(request))
        return stream

    def state(self) -> RuntimeState:
        """Return load and speed as they are now. Safe from any thread."""
        loaded = self._loaded
        counts = self._occupancy.counts
        drafter = self._scheduler.drafter if self._scheduler else None
        return RuntimeState(
            status=self._status,
            running=counts.running,
            waiting=counts.waiting,
            waiting_limit=self._settings.waiting_limit,
            prefill_tokens_queued=counts.prompt_tokens_unread,
            slots=self._occupancy.slots,
            ms_per_token=dict(loaded.speed.ms_per_token) if loaded else {},
            prefill_tokens_per_s=loaded.speed.prefill_tokens_per_s if loaded else None,
            drafted_tokens=drafter.drafted if drafter else 0,
            accepted_tokens=drafter.accepted if drafter else 0,
            models=(loaded.served,) if loaded else (),
            provider=loaded.provider if loaded else "unknown",
            detail=self._detail,
        )

    def steps(self) -> Sequence[EngineStep]:
        """Return what was done lately, oldest first. Safe from any thread."""
        return () if self._scheduler is None else self._scheduler.steps

    # On the event loop.

    def _cancel(self, request: Request) -> None:
        self._commands.put(_Cancel(request))

    def _become_ready(self, loaded: LoadedModel, waiter: asyncio.Future[LoadedModel]) -> None:
        self._loaded = loaded
        if self._status is RuntimeStatus.STARTING:
            self._status, self._detail = RuntimeStatus.READY, None
        if not waiter.done():
            waiter.set_result(loaded)

    def _fail(self, error: Exception, waiter: asyncio.Future[LoadedModel]) -> None:
        self._status, self._detail = RuntimeStatus.FAILED, str(error)
        self._end_all(TokenEvent(finish=FinishReason.ERROR, error="The engine failed."))
        if waiter.done():
            _logger.error("The engine failed", exc_info=error)
        else:
            waiter.set_exception(error)

    def _end_all(self, event: TokenEvent) -> None:
        self._deliver([(request, event) for request in self._streams])

    def _deliver(self, news: News) -> None:
        for request, event in news:
            stream = self._streams.get(request)
            if stream is None:
                continue
            stream.cached_tokens = request.cached
            if event.finish is not None:
                del self._streams[request]
            stream.put(event)

    # In the engine's thread.

    def _main(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[LoadedModel]) -> None:
        """Supervise the thread: whatever goes wrong in it reaches those who wait."""

        def post(news: News) -> None:
            if news:
                loop.call_soon_threadsafe(self._deliver, news)

        try:
            loaded, scheduler = load(self._settings, self._occupancy, self._clock, self._interruption)
            self._scheduler = scheduler
            loop.call_soon_threadsafe(self._become_ready, loaded, waiter)
            try:
                self._serve(scheduler, post)
            finally:
                scheduler.close()
        except Exception as error:
            loop.call_soon_threadsafe(self._fail, error, waiter)

    def _serve(self, scheduler: Scheduler, post: Callable[[News], None]) -> None:
        """Run steps until told to stop: commands between steps, then at most one prefill chunk and one decode run."""
        while True:
            for command in self._take_commands(wait=scheduler.is_idle):
                match command:
                    case _Submit(request):
                        scheduler.add(request)
                    case _Cancel(request):
                        post(scheduler.cancel(request))
                    case _Stop():
                        post(scheduler.cancel_all())
                        return
            post(scheduler.expire())
            post(scheduler.prefill())
            post(scheduler.decode())

    def _take_commands(self, *, wait: bool) -> Iterator[_Command]:
        """Yield what has come in; with `wait`, sleep until something does."""
        try:
            yield self._commands.get(block=wait)
            while True:
                yield self._commands.get_nowait()
        except queue.Empty:
            return

"""An engine on torch and transformers that answers one request at a time; the others wait in a queue.

    event loop: queue, status, streams            one worker thread: torch
    submit ─▶ waiting ─▶ running ──────────────▶ answer
    TokenStream ◀────────── call_soon_threadsafe ── each token

All that is decided, is decided on the event loop. The worker only looks at the one request that it was given.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cloud_runtime.engines.loading import EngineSettings, LoadedModel, load
from cloud_runtime.engines.request import Request
from inference_protocol.engine_steps import EngineStep
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus
from runtime_server.engine import (
    LONGEST_STEP_S,
    RUN_FAILED,
    FinishReason,
    GenerationJob,
    NotReady,
    QueueFull,
    TokenEvent,
)
from runtime_server.moments import Moments
from runtime_server.token_stream import TokenStream
from serving.crashes import log_crash

_logger = logging.getLogger(__name__)


class TransformersEngine:
    """A `runtime_server.engine.Engine` on torch. It belongs to the event loop that starts it."""

    def __init__(self, settings: EngineSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Build an engine; `start` loads the model.

        Args:
            settings: What an operator chooses.
            clock: Seconds that agree with the event loop's `time()`, in which deadlines are told. Called from the
                worker too.
        """
        self._settings = settings
        self._clock = clock
        self._status = RuntimeStatus.STARTING
        self._detail: str | None = None
        self._loaded: LoadedModel | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="generation")
        self._waiting: deque[Request] = deque()
        self._running: Request | None = None
        self._answering: asyncio.Future[FinishReason] | None = None
        self._streams: dict[Request, TokenStream] = {}
        self._expiries: dict[Request, asyncio.TimerHandle] = {}

    async def start(self) -> None:
        """Import torch; verify, load and measure the model.

        Raises:
            ModelMissing: The folder holds no complete model.
            ModelDamaged: A file is not what the manifest says.
            ModelUnsupported: It is not a folder that transformers can load.
        """
        self._detail = "torch is being imported, and the model verified, loaded and measured."
        loading = asyncio.get_running_loop().run_in_executor(self._worker, load, self._settings, self._clock)
        loading.add_done_callback(self._settle_load)
        await loading

    async def stop(self) -> None:
        """Cancel what waits and what runs, wait for the step in flight, free the model."""
        self._status, self._detail = RuntimeStatus.DRAINING, None
        for request in [*self._waiting, *([self._running] if self._running else [])]:
            self._cancel(request)
        if self._answering is not None:
            _, unfinished = await asyncio.wait([self._answering], timeout=LONGEST_STEP_S)
            if unfinished:
                _logger.error("A step of the model did not end within %.0f s; it is left to itself.", LONGEST_STEP_S)
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._loaded = None

    def submit(self, job: GenerationJob) -> TokenStream:
        """Admit a request.

        Raises:
            QueueFull: Every place in the queue is taken.
            NotReady: The model is not loaded, or could not be, or the engine stops.
        """
        if self._status is not RuntimeStatus.READY:
            raise NotReady
        if self._running is not None and len(self._waiting) >= self._settings.waiting_limit:
            raise QueueFull
        request = Request(job, Moments(self._clock()))
        stream = TokenStream(functools.partial(self._cancel, request), lambda: request.moments.timings)
        self._streams[request] = stream
        self._waiting.append(request)
        if job.deadline is not None:
            loop = asyncio.get_running_loop()
            self._expiries[request] = loop.call_at(job.deadline, self._leave_queue, request, FinishReason.LENGTH)
        self._advance()
        return stream

    def steps(self) -> tuple[EngineStep, ...]:
        """Return nothing: this engine takes no notes."""
        return ()

    def state(self) -> RuntimeState:
        """Return load and speed as they are now."""
        loaded = self._loaded
        unread = sum(request.unread for request in self._waiting)
        return RuntimeState(
            status=self._status,
            running=0 if self._running is None else 1,
            waiting=len(self._waiting),
            waiting_limit=self._settings.waiting_limit,
            prefill_tokens_queued=unread + (self._running.unread if self._running else 0),
            slots=1,
            ms_per_token=dict(loaded.speed.ms_per_token) if loaded else {},
            prefill_tokens_per_s=loaded.speed.prefill_tokens_per_s if loaded else None,
            models=(loaded.served,) if loaded else (),
            provider=f"torch:{loaded.model.device}" if loaded else "unknown",
            detail=self._detail,
        )

    def _settle_load(self, loading: asyncio.Future[LoadedModel]) -> None:
        if loading.cancelled() or self._status is not RuntimeStatus.STARTING:
            return
        error = loading.exception()
        if error is None:
            self._loaded, self._status, self._detail = loading.result(), RuntimeStatus.READY, None
        else:
            self._status, self._detail = RuntimeStatus.FAILED, str(error)

    def _advance(self) -> None:
        """Give the worker the first in the queue, if it has nothing to do."""
        if self._running is not None or not self._waiting or self._loaded is None:
            return
        request = self._running = self._waiting.popleft()
        self._forget_expiry(request)
        request.moments.started = self._clock()
        loop = asyncio.get_running_loop()
        stream, loaded = self._streams[request], self._loaded

        def say(event: TokenEvent) -> None:
            loop.call_soon_threadsafe(stream.put, event)

        self._answering = loop.run_in_executor(self._worker, loaded.model.answer, request, loaded.speed, say)
        self._answering.add_done_callback(functools.partial(self._settle, request))

    def _settle(self, request: Request, answering: asyncio.Future[FinishReason]) -> None:
        """Supervise the worker: however an answer ended, the caller hears of it and the next one begins."""
        self._running = self._answering = None
        error = answering.exception()
        if error is None:
            self._end(request, TokenEvent(finish=answering.result()))
        else:
            log_crash(_logger, "A request", error)
            self._end(request, TokenEvent(finish=FinishReason.ERROR, error=RUN_FAILED))
        self._advance()

    def _cancel(self, request: Request) -> None:
        request.cancelled.set()
        self._leave_queue(request, FinishReason.CANCELLED)

    def _leave_queue(self, request: Request, finish: FinishReason) -> None:
        """End a request that waits; one that runs sees for itself that it should."""
        if request in self._waiting:
            self._waiting.remove(request)
            self._forget_expiry(request)
            self._end(request, TokenEvent(finish=finish))

    def _forget_expiry(self, request: Request) -> None:
        expiry = self._expiries.pop(request, None)
        if expiry is not None:
            expiry.cancel()

    def _end(self, request: Request, event: TokenEvent) -> None:
        request.moments.ended = self._clock()
        self._streams.pop(request).put(event)

"""One model that embeds: loaded when it is first asked, run batch by batch, taken out of memory when nobody asks.

The requests that are inside take turns, a batch each, so that a small one does not wait for the end of a large one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from inference_protocol.execution import Execution
from inference_protocol.runtime_state import ServedModel
from inference_protocol.timings import Timings
from runtime_server.embeddings.batches import batches
from runtime_server.embeddings.encoder import InputEncoder
from runtime_server.embeddings.model import EmbeddingModel, Rows, Vectors
from runtime_server.engine import QueueFull
from runtime_server.interruptible import run_interruptibly
from runtime_server.model_lease import ModelLease
from runtime_server.moments import Moments
from serving.start import StartRefused

# Padding included. A larger batch computes hardly more tokens a second on a CPU and takes more memory: 50 MB here.
BATCH_TOKENS = 2048

_logger = logging.getLogger(__name__)


class NotLoaded(Exception):
    """The model cannot be loaded. The message says why."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """What a request's inputs came to; the rows of `vectors` are in their order."""

    vectors: Vectors
    timings: Timings
    execution: Execution


class EmbeddingService:
    """It belongs to the event loop.

    Attributes:
        served: What is told of the model.
        encoder: Its tokenizer.
    """

    def __init__(
        self,
        served: ServedModel,
        encoder: InputEncoder,
        load: Callable[[], EmbeddingModel],
        *,
        waiting_limit: int,
        keep_alive_s: float | None,
        hold: ModelLease | None = None,
    ) -> None:
        """Set up; nothing is loaded yet.

        Args:
            served: What is told of the model.
            encoder: Its tokenizer.
            load: Loads it; takes a while, and raises `StartRefused` where it cannot be.
            waiting_limit: Requests that may be inside beside the one whose turn it is.
            keep_alive_s: After so long without a request it is unloaded; `None` keeps it.
            hold: On the model's folder, for as long as this lives.
        """
        self.served = served
        self.encoder = encoder
        self._load = load
        self._limit = waiting_limit + 1
        self._keep_alive_s = keep_alive_s
        self._hold = hold
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embeddings")
        self._turn = asyncio.Lock()  # first come, first served
        self._inside = 0
        self._model: EmbeddingModel | None = None
        self._loading: asyncio.Future[EmbeddingModel] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._unloading: asyncio.Task[None] | None = None

    async def embed(self, rows: Rows) -> Embedded:
        """Return the vectors of these inputs. Cancelled, it stops in the middle of a batch where the model can.

        Raises:
            QueueFull: Every place is taken.
            NotLoaded: The model cannot be loaded.
            EmbeddingFailed: The model could not be run on these inputs.
        """
        clock = asyncio.get_running_loop().time
        vectors: Vectors | None = None
        executions: list[Execution] = []
        with self._place():
            moments = Moments(clock())
            for batch in batches([len(row) for row in rows], BATCH_TOKENS):
                async with self._turn:
                    moments.started = moments.started or clock()
                    model = self._model or await self._loaded()
                    found = await self._run(model, [rows[at] for at in batch])
                    executions.append(model.execution)
                if vectors is None:
                    vectors = np.empty((len(rows), found.shape[1]), np.float32)
                vectors[batch] = found
            moments.prefilled = moments.ended = clock()
        assert vectors is not None, "there is at least one input"
        stood_in = next((each for each in executions if each.instead_of is not None), executions[-1])
        return Embedded(vectors, moments.timings, stood_in)

    async def aclose(self) -> None:
        """End what runs and let the model go."""
        if self._idle is not None:
            self._idle.cancel()
        if self._model is not None:
            self._model.interrupt()
            self._model = None
        await asyncio.to_thread(self._thread.shutdown)
        if self._hold is not None:
            self._hold.release()

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self._inside >= self._limit:
            raise QueueFull
        self._inside += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        try:
            yield
        finally:
            self._inside -= 1
            if self._inside == 0 and self._keep_alive_s is not None:
                self._idle = asyncio.get_running_loop().call_later(self._keep_alive_s, self._begin_unloading)

    async def _loaded(self) -> EmbeddingModel:
        if self._loading is None:
            self._loading = asyncio.get_running_loop().run_in_executor(self._thread, self._load)
        loading = self._loading
        try:
            # Whoever gives up meanwhile, the next one has use for it.
            self._model = await asyncio.shield(loading)
        except StartRefused as error:
            _logger.error("The model %s cannot be loaded: %s", self.served.id, error)
            raise NotLoaded(str(error)) from None
        finally:
            if loading.done():
                self._loading = None
        return self._model

    async def _run(self, model: EmbeddingModel, rows: Rows) -> Vectors:
        return await run_interruptibly(self._thread, model.interrupt, model.run, rows)

    def _begin_unloading(self) -> None:
        self._unloading = asyncio.create_task(self._unload())

    async def _unload(self) -> None:
        async with self._turn:
            if self._inside == 0 and self._model is not None:
                model, self._model = self._model, None
                await asyncio.get_running_loop().run_in_executor(self._thread, model.close)
                _logger.info("Unloaded %s: nobody asked for %g s", self.served.id, self._keep_alive_s)

"""One version of a model that computes tensors: loaded when it is asked, run batch by batch, unloaded when idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType

from runtime_server.engine import QueueFull
from runtime_server.interruptible import run_interruptibly
from runtime_server.tensors.batcher import Batcher, Computed
from runtime_server.tensors.model import Arrays, Batching, TensorModel
from serving.start import StartRefused

_logger = logging.getLogger(__name__)


class NotLoaded(Exception):
    """The model cannot be loaded. The message says why."""


class TensorService:
    """It belongs to the event loop.

    Attributes:
        name: Of the model and its version, for logs.
        batching: How requests may be computed together.
        states: By input that carries a state, the output that it comes from.
        labels: What the places of an output's last axis stand for.
    """

    def __init__(
        self,
        name: str,
        batching: Batching,
        load: Callable[[], TensorModel],
        *,
        waiting_limit: int,
        keep_alive_s: float | None = None,
        states: Mapping[str, str] = MappingProxyType({}),
        labels: Sequence[str] = (),
    ) -> None:
        """Set up; nothing is loaded yet.

        Args:
            name: Of the model and its version, for logs.
            batching: How requests may be computed together.
            load: Loads it; takes a while, and raises `StartRefused` where it cannot be.
            waiting_limit: Requests that may be inside beside those of the batch that runs.
            keep_alive_s: After so long without a request it is unloaded; `None` keeps it.
            states: By input that carries a state from request to request, the output that it comes from.
            labels: What the places of an output's last axis stand for.
        """
        self.name = name
        self.batching = batching
        self.states = states
        self.labels = labels
        self._load = load
        self._limit = waiting_limit + max(1, batching.most_rows)
        self._keep_alive_s = keep_alive_s
        self._inside = 0
        self._users = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tensors")
        self._model: TensorModel | None = None
        self._loading: asyncio.Future[TensorModel] | None = None
        self._batcher: Batcher | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._unloading: asyncio.Task[None] | None = None

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keep the model in memory, once it is there, until the block ends."""
        self._users += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        try:
            yield
        finally:
            self._users -= 1
            if self._users == 0 and self._keep_alive_s is not None:
                self._idle = asyncio.get_running_loop().call_later(self._keep_alive_s, self._begin_unloading)

    async def loaded(self) -> TensorModel:
        """Return the model, and load it where it is not yet. It is not unloaded inside `used`.

        Raises:
            NotLoaded: It cannot be loaded.
        """
        with self.used():
            return self._model or await self._load_it()

    async def _load_it(self) -> TensorModel:
        if self._loading is None:
            self._loading = asyncio.get_running_loop().run_in_executor(self._thread, self._load)
        loading = self._loading
        try:
            # Whoever gives up meanwhile, the next one has use for it.
            self._model = await asyncio.shield(loading)
        except StartRefused as error:
            _logger.error("The model %s cannot be loaded: %s", self.name, error)
            raise NotLoaded(str(error)) from None
        finally:
            if loading.done():
                self._loading = None
        return self._model

    async def compute(self, inputs: Arrays, outputs: Sequence[str], rows: int) -> Computed:
        """Return outputs of the model, which is loaded. Cancelled, it stops where nobody else is in the same batch.

        Raises:
            QueueFull: Every place is taken.
            TensorRunFailed: The model could not be run on these tensors.
        """
        model = self._model
        assert model is not None, "tensors are compared with a loaded model"
        if self._inside >= self._limit:
            raise QueueFull
        if self._batcher is None:
            joins = all(spec.name in self.batching.axes for spec in model.outputs) and self.batching.most_rows > 1
            self._batcher = Batcher(self._run, self.batching, joins, lambda: model.execution)
        self._inside += 1
        try:
            return await self._batcher.compute(inputs, outputs, rows)
        finally:
            self._inside -= 1

    async def aclose(self) -> None:
        """End what runs and let the model go."""
        if self._idle is not None:
            self._idle.cancel()
        if self._batcher is not None:
            await self._batcher.aclose()
        await asyncio.to_thread(self._thread.shutdown)
        if self._model is not None:
            self._model.close()
            self._model = None

    async def _run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        model = self._model
        assert model is not None, "it is loaded before anything is computed"
        return await run_interruptibly(self._thread, model.interrupt, model.run, inputs, outputs)

    def _begin_unloading(self) -> None:
        self._unloading = asyncio.create_task(self._unload())

    async def _unload(self) -> None:
        if self._users == 0 and self._model is not None:
            model, self._model, self._batcher = self._model, None, None
            await asyncio.get_running_loop().run_in_executor(self._thread, model.close)
            _logger.info("Unloaded %s: nobody asked for %g s", self.name, self._keep_alive_s)

"""Requests that are computed together, where that changes no answer: nothing is padded.

Two requests share a batch where their tensors have the same types and lengths but for the axis of rows, and whatever
has no rows is equal. Whoever has waited longest chooses what runs next, and waits no longer than the model allows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference_protocol.execution import UNKNOWN, Execution
from runtime_server.moments import Moments
from runtime_server.tensors.model import Arrays, Batching, TensorRunFailed

Run = Callable[[Arrays, Sequence[str]], Awaitable[Arrays]]
"""Computes outputs. Cancelled, it ends the run."""
_Key = tuple[Any, ...]


@dataclass(slots=True, eq=False)
class _Job:
    inputs: Arrays
    outputs: tuple[str, ...]
    rows: int
    key: _Key
    moments: Moments
    answer: asyncio.Future[Arrays]
    batch_rows: int = 0
    execution: Execution = UNKNOWN


@dataclass(frozen=True, slots=True)
class Computed:
    """The outputs that one request asked for, how many rows ran in the same batch, and on what."""

    arrays: Arrays
    moments: Moments
    batch_rows: int
    execution: Execution


@dataclass(slots=True)
class Batcher:
    """It belongs to the event loop.

    Attributes:
        run: Computes a batch.
        batching: What may be computed together.
        joins: Whether requests are, which takes rows in every output.
        execution: Tells what computed the last batch.
    """

    run: Run
    batching: Batching
    joins: bool
    execution: Callable[[], Execution] = lambda: UNKNOWN  # of runs that nobody tells of
    _waiting: deque[_Job] = field(default_factory=deque)
    _worker: asyncio.Task[None] | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def compute(self, inputs: Arrays, outputs: Sequence[str], rows: int) -> Computed:
        """Return these outputs. Cancelled, it leaves the batch, and ends it where nobody else is in it.

        Raises:
            TensorRunFailed: The model could not be run.
        """
        loop = asyncio.get_running_loop()
        job = _Job(inputs, tuple(outputs), rows, self._key(inputs, outputs), Moments(loop.time()), loop.create_future())
        self._waiting.append(job)
        self._arrived.set()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        arrays = await job.answer
        return Computed(arrays, job.moments, job.batch_rows, job.execution)

    async def aclose(self) -> None:
        """End what runs; whoever waits is told that it failed."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])
        for job in self._waiting:
            _fail(job, TensorRunFailed("the model was taken out of memory"))
        self._waiting.clear()

    def _key(self, inputs: Arrays, outputs: Sequence[str]) -> _Key:
        if not self.joins:
            return (object(),)
        found: list[Any] = [tuple(outputs)]
        for name in sorted(inputs):
            array, axis = inputs[name], self.batching.axes.get(name)
            lengths = tuple(length for at, length in enumerate(array.shape) if at != axis)
            shared = None if axis is not None else tuple(array.flat) if array.dtype == object else array.tobytes()
            found.append((name, array.dtype.str, lengths, shared))
        return tuple(found)

    async def _work(self) -> None:
        while self._drop_gone():
            batch = await self._gather()
            if batch:
                await self._compute(batch)

    def _drop_gone(self) -> bool:
        self._waiting = deque(job for job in self._waiting if not job.answer.done())
        return bool(self._waiting)

    async def _gather(self) -> list[_Job]:
        """Take the oldest job and what may go with it, once the batch is full or the oldest has waited long enough."""
        loop = asyncio.get_running_loop()
        oldest = self._waiting[0]
        until = oldest.moments.submitted + self.batching.wait_s
        while self.joins and self._rows_of(oldest) < self.batching.most_rows and loop.time() < until:
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._arrived.wait()
            except TimeoutError:
                break
        self._drop_gone()
        taken: list[_Job] = []
        rows = 0
        for job in list(self._waiting):
            if job.key == oldest.key and (not taken or rows + job.rows <= self.batching.most_rows):
                taken.append(job)
                rows += job.rows
                self._waiting.remove(job)
        return taken

    def _rows_of(self, oldest: _Job) -> int:
        return sum(job.rows for job in self._waiting if job.key == oldest.key)

    async def _compute(self, batch: list[_Job]) -> None:
        clock = asyncio.get_running_loop().time
        rows = sum(job.rows for job in batch)
        for job in batch:
            job.moments.started, job.batch_rows = clock(), rows
        run = asyncio.ensure_future(self.run(self._joined(batch), batch[0].outputs))
        for job in batch:
            job.answer.add_done_callback(lambda _: run.cancel() if all(each.answer.done() for each in batch) else None)
        try:
            computed = await run
            execution = self.execution()  # before the next batch begins
            found = self._parted(computed, batch)
        except TensorRunFailed as error:
            for job in batch:
                _fail(job, error)
        except asyncio.CancelledError:
            here = asyncio.current_task()
            if here is not None and here.cancelling():
                raise
        else:
            for job, arrays in zip(batch, found, strict=True):
                job.moments.prefilled = job.moments.ended = clock()
                job.execution = execution
                if not job.answer.done():
                    job.answer.set_result(arrays)
        finally:
            for job in batch:
                _fail(job, TensorRunFailed("the run was ended"))

    def _joined(self, batch: Sequence[_Job]) -> Arrays:
        first = batch[0].inputs
        if len(batch) == 1:
            return first
        axes = self.batching.axes
        return {
            name: np.concatenate([job.inputs[name] for job in batch], axes[name]) if name in axes else array
            for name, array in first.items()
        }

    def _parted(self, found: Arrays, batch: Sequence[_Job]) -> list[Arrays]:
        """Return each job's rows of each output.

        Raises:
            TensorRunFailed: An output has other rows than the inputs have.
        """
        if len(batch) == 1:
            return [found]
        ends = np.cumsum([job.rows for job in batch])
        parts: dict[str, list[NDArray[Any]]] = {}
        for name, array in found.items():
            axis = self.batching.axes[name]
            if array.ndim <= axis or array.shape[axis] != ends[-1]:
                raise TensorRunFailed("an output has other rows than the inputs")
            parts[name] = np.split(array, ends[:-1], axis)
        return [{name: rows[at] for name, rows in parts.items()} for at in range(len(batch))]


def _fail(job: _Job, error: TensorRunFailed) -> None:
    if not job.answer.done():
        job.answer.set_exception(error)

"""Whose turn it is, what is computed together, and when the model is in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from inference_protocol.execution import Execution
from inference_protocol.request import Task
from inference_protocol.runtime_state import ServedModel
from runtime_server.embeddings.batches import batches
from runtime_server.embeddings.encoder import InputEncoder
from runtime_server.embeddings.model import Rows, Vectors
from runtime_server.embeddings.service import EmbeddingService, NotLoaded
from runtime_server.engine import QueueFull
from runtime_server.model_manifest import ModelUnsupported

SERVED = ServedModel(id="m", digest="d", window=2048, tasks=frozenset({Task.EMBEDDING}), dimensions=2)


class Scripted:
    """A model whose vectors hold the first token and the length; it waits for its gate."""

    execution = Execution("scripted")

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.running = threading.Event()
        self.ran: list[list[int]] = []
        self.interrupted = False
        self.closed = threading.Event()

    def run(self, rows: Rows) -> Vectors:
        self.running.set()
        assert self.gate.wait(10)
        self.ran.append([len(row) for row in rows])
        return np.array([[row[0], len(row)] for row in rows], np.float32)

    def interrupt(self) -> None:
        self.interrupted = True
        self.gate.set()

    def close(self) -> None:
        self.closed.set()


@asynccontextmanager
async def serving(
    load: Callable[[], Scripted], *, waiting_limit: int = 4, keep_alive_s: float | None = None
) -> AsyncIterator[EmbeddingService]:
    encoder = InputEncoder(Tokenizer(WordLevel({"a": 0}, unk_token="a")), 2048)
    service = EmbeddingService(SERVED, encoder, load, waiting_limit=waiting_limit, keep_alive_s=keep_alive_s)
    try:
        yield service
    finally:
        await service.aclose()


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=40), st.integers(1, 2048))
def test_every_input_is_in_one_batch_and_padding_stays_within_the_bound(lengths: list[int], most: int) -> None:
    found = list(batches(lengths, most))
    assert sorted(at for batch in found for at in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * max(lengths[at] for at in batch) <= most for batch in found)


async def test_long_and_short_inputs_come_back_in_their_order() -> None:
    model = Scripted()
    async with serving(lambda: model) as service:
        rows = [(7,) * 1500, (1, 1), (9,) * 1000, (2,), (3,) * 1000]
        embedded = await service.embed(rows)
    assert embedded.vectors.tolist() == [[7, 1500], [1, 2], [9, 1000], [2, 1], [3, 1000]]
    assert model.ran == [[1, 2], [1000, 1000], [1500]]


async def test_a_small_request_is_answered_between_the_batches_of_a_large_one() -> None:
    model = Scripted()
    async with serving(lambda: model) as service:
        model.gate.clear()
        large = asyncio.create_task(service.embed([(1,) * 2000] * 5))
        await asyncio.to_thread(model.running.wait, 10)
        small = asyncio.create_task(service.embed([(2,)]))
        await asyncio.sleep(0)
        model.gate.set()
        await small
        assert not large.done()
        await large
    assert model.ran.index([1]) == 1


async def test_more_requests_than_there_are_places_are_refused() -> None:
    model = Scripted()
    async with serving(lambda: model, waiting_limit=1) as service:
        model.gate.clear()
        inside = [asyncio.create_task(service.embed([(1,)])) for _ in range(2)]
        await asyncio.to_thread(model.running.wait, 10)
        with pytest.raises(QueueFull):
            await service.embed([(1,)])
        model.gate.set()
        await asyncio.gather(*inside)
        await service.embed([(1,)])


async def test_a_cancelled_request_interrupts_its_run_and_leaves_the_turn_to_the_next() -> None:
    model = Scripted()
    async with serving(lambda: model) as service:
        model.gate.clear()
        gone = asyncio.create_task(service.embed([(1,)]))
        await asyncio.to_thread(model.running.wait, 10)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert model.interrupted
        assert (await service.embed([(4,)])).vectors.tolist() == [[4, 1]]


async def test_the_model_is_loaded_at_the_first_request_and_unloaded_when_nobody_asks() -> None:
    made: list[Scripted] = []

    def load() -> Scripted:
        made.append(Scripted())
        return made[-1]

    async with serving(load, keep_alive_s=0.05) as service:
        assert made == []
        await service.embed([(1,)])
        assert await asyncio.to_thread(made[0].closed.wait, 10)
        await service.embed([(1,)])
    assert len(made) == 2


async def test_a_model_that_cannot_be_loaded_is_tried_again_by_the_next_request() -> None:
    failing = [True]

    def load() -> Scripted:
        if failing.pop():
            failing.append(False)
            raise ModelUnsupported("the weights are somewhere else")
        return Scripted()

    async with serving(load) as service:
        with pytest.raises(NotLoaded, match="somewhere else"):
            await service.embed([(1,)])
        assert (await service.embed([(1,)])).vectors.shape == (1, 2)

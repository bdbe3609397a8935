from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from runtime_server.tensors.batcher import Batcher
from runtime_server.tensors.model import Arrays, Batching, TensorRunFailed

ROWS = Batching({"x": 0, "y": 0}, most_rows=4, wait_s=0.0)


class Gate:
    """A run that waits until a test lets it go, and tells which rows came together."""

    def __init__(self) -> None:
        self.batches: list[list[float]] = []
        self.ended = 0
        self.open = asyncio.Event()
        self.entered = asyncio.Event()

    async def __call__(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        self.batches.append(inputs["x"][:, 0].tolist())
        self.entered.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.ended += 1
            raise
        return {"y": inputs["x"] * 2}


def batcher(run: Gate, batching: Batching = ROWS) -> Batcher:
    return Batcher(run, batching, joins=True)


def row(value: float, length: int = 3) -> dict[str, Any]:
    return {"x": np.full((1, length), value, np.float32)}


async def behind_one_that_runs(gate: Gate, of: Batcher, *asked: dict[str, Any]) -> list[asyncio.Task[Any]]:
    """Ask while another batch runs, so that all of them wait together."""
    first = asyncio.create_task(of.compute(row(100), ["y"], 1))
    await gate.entered.wait()
    tasks = [first, *(asyncio.create_task(of.compute(each, ["y"], len(each["x"]))) for each in asked)]
    await asyncio.sleep(0)
    return tasks


async def test_requests_that_wait_run_together_and_each_gets_its_own_rows() -> None:
    gate = Gate()
    tasks = await behind_one_that_runs(gate, batcher(gate), row(1), row(2), row(3))
    gate.open.set()
    found = [await task for task in tasks]
    assert gate.batches == [[100.0], [1.0, 2.0, 3.0]]
    assert [float(each.arrays["y"][0, 0]) for each in found] == [200.0, 2.0, 4.0, 6.0]
    assert [each.batch_rows for each in found] == [1, 3, 3, 3]


async def test_rows_of_other_lengths_are_another_batch_and_nothing_is_padded() -> None:
    gate = Gate()
    tasks = await behind_one_that_runs(gate, batcher(gate), row(1, 5), row(2, 128), row(3, 5))
    gate.open.set()
    shapes = [(await task).arrays["y"].shape for task in tasks]
    assert gate.batches == [[100.0], [1.0, 3.0], [2.0]]
    assert shapes == [(1, 3), (1, 5), (1, 128), (1, 5)]


async def test_a_batch_has_no_more_rows_than_the_model_takes_and_a_larger_request_has_one_of_its_own() -> None:
    gate = Gate()
    large = {"x": np.ones((6, 3), np.float32)}
    tasks = await behind_one_that_runs(gate, batcher(gate), row(1), large, row(2), row(3), row(4), row(5))
    gate.open.set()
    await asyncio.gather(*tasks)
    assert [len(each) for each in gate.batches] == [1, 4, 6, 1]


async def test_tensors_without_rows_must_be_equal() -> None:
    gate = Gate()
    of = batcher(gate)
    asked = [{**row(at), "rate": np.array(rate)} for at, rate in enumerate((8000, 16000, 8000))]
    tasks = await behind_one_that_runs(gate, of, *asked)
    gate.open.set()
    await asyncio.gather(*tasks)
    assert gate.batches == [[100.0], [0.0, 2.0], [1.0]]


async def test_who_leaves_is_left_out_and_the_last_one_ends_the_run() -> None:
    gate = Gate()
    tasks = await behind_one_that_runs(gate, batcher(gate), row(1), row(2))
    tasks[1].cancel()
    tasks[0].cancel()
    found = await asyncio.wait_for(asyncio.shield(_opened(gate, tasks[2])), 5)
    assert gate.ended == 1
    assert gate.batches == [[100.0], [2.0]]
    assert float(found.arrays["y"][0, 0]) == 4.0


async def _opened(gate: Gate, task: asyncio.Task[Any]) -> Any:
    gate.entered.clear()
    await gate.entered.wait()
    gate.open.set()
    return await task


async def test_a_lone_request_waits_for_others_no_longer_than_it_may() -> None:
    gate = Gate()
    gate.open.set()
    loop = asyncio.get_running_loop()
    of = batcher(gate, Batching(ROWS.axes, 2, wait_s=0.05))
    began = loop.time()
    await of.compute(row(1), ["y"], 1)
    assert loop.time() - began >= 0.05
    # A batch that is full waits for nobody: without the second request this would take a day.
    of = batcher(gate, Batching(ROWS.axes, 2, wait_s=86400))
    await asyncio.wait_for(asyncio.gather(of.compute(row(1), ["y"], 1), of.compute(row(2), ["y"], 1)), 10)
    assert gate.batches[-1] == [1.0, 2.0]


async def test_a_run_that_fails_fails_those_in_it_and_the_next_one_goes_on() -> None:
    failing = True

    async def run(inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        if failing:
            raise TensorRunFailed("on purpose")
        return {"y": inputs["x"]}

    of = Batcher(run, ROWS, joins=True)
    found = await asyncio.gather(*(of.compute(row(at), ["y"], 1) for at in range(2)), return_exceptions=True)
    assert [type(each) for each in found] == [TensorRunFailed, TensorRunFailed]
    failing = False
    assert (await of.compute(row(7), ["y"], 1)).arrays["y"][0, 0] == 7.0


async def test_an_output_with_other_rows_than_the_inputs_is_a_failure_and_no_mixed_up_answer() -> None:
    async def run(inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        return {"y": inputs["x"][:1]}

    of = Batcher(run, ROWS, joins=True)
    found = await asyncio.gather(*(of.compute(row(at), ["y"], 1) for at in range(2)), return_exceptions=True)
    assert [type(each) for each in found] == [TensorRunFailed, TensorRunFailed]


async def test_closing_ends_what_runs_and_fails_who_waits() -> None:
    gate = Gate()
    of = batcher(gate)
    tasks = await behind_one_that_runs(gate, of, row(1))
    await of.aclose()
    for task in tasks:
        with pytest.raises(TensorRunFailed):
            await task

"""A model of tensors is in memory while somebody asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from inference_protocol.execution import UNKNOWN
from inference_protocol.open_inference.datatypes import Datatype
from runtime_server.tensors.model import Arrays, Batching, TensorSpec
from runtime_server.tensors.service import NotLoaded, TensorService
from serving.start import StartRefused
from tests.support.waiting import until

SPEC = TensorSpec("x", Datatype.FP32, (None,))


class Doubling:
    inputs = (SPEC,)
    outputs = (TensorSpec("y", Datatype.FP32, (None,)),)
    execution = UNKNOWN
    closed = False

    def run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        assert not self.closed
        return {"y": inputs["x"] * 2}

    def interrupt(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


async def doubled(service: TensorService, value: float) -> Any:
    with service.used():
        await service.loaded()
        computed = await service.compute({"x": np.array([value], np.float32)}, ["y"], 1)
    return computed.arrays["y"].tolist()


@pytest.mark.parametrize("axes", [{}, {"x": 0, "y": 0}])
async def test_it_is_unloaded_when_nobody_asks_and_loaded_again_when_somebody_does(axes: dict[str, int]) -> None:
    loaded: list[Doubling] = []

    def load() -> Doubling:
        loaded.append(Doubling())
        return loaded[-1]

    service = TensorService("m/1", Batching(axes, most_rows=4), load, waiting_limit=4, keep_alive_s=0)
    for times in (1, 2):
        assert await doubled(service, times) == [times * 2]
        await until(lambda: loaded[-1].closed)
        assert len(loaded) == times
    with service.used():
        await service.loaded()
        await asyncio.gather(*(doubled(service, value) for value in range(4)))
        assert not loaded[-1].closed
    await until(lambda: loaded[-1].closed)
    assert len(loaded) == 3
    await service.loaded()  # who only looks at it has it unloaded, too
    await until(lambda: loaded[-1].closed)
    await service.aclose()


async def test_without_a_time_it_stays() -> None:
    loaded: list[Doubling] = []
    service = TensorService("m/1", Batching(), lambda: loaded.append(Doubling()) or loaded[-1], waiting_limit=4)
    for value in (1, 2):
        assert await doubled(service, value) == [value * 2]
    assert [each.closed for each in loaded] == [False]
    await service.aclose()
    assert loaded[0].closed


async def test_a_model_that_cannot_be_loaded_is_tried_again_by_the_next() -> None:
    def load() -> Doubling:
        raise StartRefused("no such file")

    service = TensorService("m/1", Batching(), load, waiting_limit=4, keep_alive_s=0)
    for _ in range(2):
        with pytest.raises(NotLoaded, match="no such file"):
            await doubled(service, 1)
    await service.aclose()

"""A model that nobody asks is unloaded, and loaded again for whoever asks next."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from edge_runtime.residency.engine import ResidencyPolicy
from inference_protocol.runtime_state import RuntimeStatus
from runtime_server.engine import FinishReason, QueueFull
from tests.edge_runtime.residency.conftest import OFTEN, ask, read, until, whose

SOON = replace(OFTEN, keep_alive_s=0.0)


def unloaded(engine) -> bool:
    return "Unloaded" in (engine.state().detail or "")


async def test_after_idle_it_is_unloaded_and_the_next_request_loads_it_again(versions, running) -> None:
    digest = versions.serve(0)
    loads = []
    async with running(SOON, loaded=loads.append) as engine:
        speed = engine.state().ms_per_token
        await until(lambda: unloaded(engine))
        state = engine.state()
        assert (state.status, state.models[0].digest) == (RuntimeStatus.READY, digest)
        assert state.ms_per_token.keys() == speed.keys()
        generation = engine.submit(ask(digest))
        assert engine.state().waiting == 1
        tokens, _ = await read(generation)
        assert whose(tokens) == {0}
        assert generation.timings.queue_ms > 0
        await until(lambda: unloaded(engine))


async def test_it_stays_as_long_as_anybody_is_answered(versions, running) -> None:
    digest = versions.serve(0)
    async with running(SOON) as engine:
        first = asyncio.create_task(read(engine.submit(ask(digest, max_tokens=800))))
        second = asyncio.create_task(read(engine.submit(ask(digest, max_tokens=1600))))
        seen = []
        while not second.done():
            seen.append(unloaded(engine))
            await asyncio.sleep(0.01)
        # It may be unloaded before the first was submitted to it, never between the two ends.
        assert [len(tokens) for tokens, _ in await asyncio.gather(first, second)] == [800, 1600]
        assert not any(seen[5:-5])
        await until(lambda: unloaded(engine))


async def test_who_cannot_wait_for_it_is_told_in_time(versions, running) -> None:
    digest = versions.serve(0)
    async with running(SOON) as engine:
        await until(lambda: unloaded(engine))
        late = engine.submit(ask(digest, deadline=asyncio.get_running_loop().time()))
        left = engine.submit(ask(digest))
        left.cancel()
        assert (await read(late))[1].finish is FinishReason.LENGTH
        assert (await read(left))[1].finish is FinishReason.CANCELLED
        assert whose((await read(engine.submit(ask(digest))))[0]) == {0}


async def test_no_more_wait_for_it_than_may_wait(versions, running) -> None:
    digest = versions.serve(0)
    async with running(SOON, slots=1) as engine:
        await until(lambda: unloaded(engine))
        waiting = [engine.submit(ask(digest)) for _ in range(9)]
        with pytest.raises(QueueFull):
            engine.submit(ask(digest))
        answers = await asyncio.gather(*(read(each) for each in waiting))
        assert all(whose(tokens) == {0} for tokens, _ in answers)


async def test_what_no_longer_fits_when_it_is_asked_for_is_refused_and_tried_again(versions, running) -> None:
    digest = versions.serve(0)
    room = [1 << 40]
    async with running(SOON, available=lambda: room[0]) as engine:
        await until(lambda: unloaded(engine))
        room[0] = 1 << 20
        _, end = await read(engine.submit(ask(digest)))
        assert (end.finish, end.error) == (FinishReason.ERROR, "The model could not be loaded.")
        assert "1 MiB are available" in engine.state().detail
        room[0] = 1 << 40
        assert whose((await read(engine.submit(ask(digest))))[0]) == {0}


async def test_an_idle_model_makes_room_when_memory_is_short(versions, running) -> None:
    digest = versions.serve(0)
    room = [1 << 40]
    policy = ResidencyPolicy(unload_below_bytes=1 << 30, look_every_s=0.02, grace_s=0.05)
    async with running(policy, available=lambda: room[0]) as engine:
        assert whose((await read(engine.submit(ask(digest))))[0]) == {0}
        assert not unloaded(engine)
        room[0] = 1 << 29
        await until(lambda: "memory is short" in (engine.state().detail or ""))


async def test_a_first_version_that_does_not_fit_is_not_served(versions, running) -> None:
    from edge_runtime.residency.memory import TooLittleMemory

    versions.serve(0)
    with pytest.raises(TooLittleMemory, match=r"keys and values.*5 MiB are available"):
        async with running(available=lambda: 5 << 20):
            pass

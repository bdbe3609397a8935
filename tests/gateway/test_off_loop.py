"""Large bodies are worked on in a thread, small ones at once."""

from __future__ import annotations

import sys
import threading

import pytest

from gateway.off_loop import READ_BYTES, off_loop_if_large, off_loop_in_short_turns
from tests.gateway.conftest import HouseFactory
from tests.support.scripted_runtime import ScriptedRuntime, state


@pytest.mark.parametrize(("size", "moves"), [(0, False), (READ_BYTES, False), (READ_BYTES + 1, True)])
async def test_what_is_over_the_limit_moves_to_a_thread(size: int, moves: bool) -> None:
    found = await off_loop_if_large(size, READ_BYTES, lambda word: (word, threading.current_thread()), "x")
    assert found[0] == "x"
    assert (found[1] is not threading.current_thread()) is moves


async def test_what_it_raises_arrives_from_a_thread_as_from_the_loop() -> None:
    for size in (0, READ_BYTES + 1):
        with pytest.raises(ValueError, match="wrong"):
            await off_loop_if_large(size, READ_BYTES, int, "wrong")


@pytest.mark.parametrize(
    "step",
    [
        "gateway.app.parse_chat",
        "gateway.measure.measure",
        "gateway.state.taint.conversation",
        "gateway.egress.body.splice",
    ],
)
async def test_no_step_reads_a_large_body_on_the_loop(
    house: HouseFactory, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    module, _, name = step.rpartition(".")
    real = getattr(__import__(module, fromlist=[name]), name)
    threads: set[threading.Thread] = set()

    def noting(*args: object, **kwargs: object) -> object:
        threads.add(threading.current_thread())
        return real(*args, **kwargs)

    monkeypatch.setattr(step, noting)
    async with house(cloud=ScriptedRuntime(report=state(window=1 << 20))) as h:
        assert (await h.gateway.chat("word " * (READ_BYTES // 5 + 1), max_tokens=8)).status_code == 200
        assert threads
        assert threading.current_thread() not in threads


async def test_a_long_computation_lets_the_loop_have_its_turn_sooner_while_it_runs() -> None:
    usual = sys.getswitchinterval()

    assert await off_loop_in_short_turns(sys.getswitchinterval) < usual / 5

    assert sys.getswitchinterval() == usual

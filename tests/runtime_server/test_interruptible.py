"""A run that nobody waits for ends, also where it has not begun when that is noticed."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime_server.interruptible import run_interruptibly
from tests.support.waiting import until


class Model:
    """Runs until it is interrupted; as in ONNX Runtime, an interruption meets the run that has begun, or nothing."""

    def __init__(self) -> None:
        self.begins = threading.Event()
        self.may_begin = threading.Event()
        self.interrupted = threading.Event()
        self.runs = 0

    def run(self) -> None:
        self.begins.set()
        assert self.may_begin.wait(20)
        self.interrupted = interrupted = threading.Event()
        self.runs += 1
        assert interrupted.wait(20)
        raise ValueError

    def interrupt(self) -> None:
        self.interrupted.set()


async def test_an_interruption_that_comes_before_the_run_has_begun_is_not_lost() -> None:
    model = Model()
    with ThreadPoolExecutor(1) as thread:
        work = asyncio.create_task(run_interruptibly(thread, model.interrupt, model.run))
        await until(model.begins.is_set)
        work.cancel()
        await until(model.interrupted.is_set)
        model.may_begin.set()
        with pytest.raises(asyncio.CancelledError):
            await work
    assert model.runs == 1


async def test_a_run_whose_turn_has_not_come_never_begins() -> None:
    model, free = Model(), threading.Event()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(free.wait, 20)
        work = asyncio.create_task(run_interruptibly(thread, model.interrupt, model.run))
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        free.set()
    assert model.runs == 0


async def test_what_it_gives_or_raises_is_passed_on() -> None:
    with ThreadPoolExecutor(1) as thread:
        assert await run_interruptibly(thread, Model().interrupt, divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await run_interruptibly(thread, Model().interrupt, divmod, 7, 0)

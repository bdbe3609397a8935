"""Runs of a model on its thread that end when nobody waits for them any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# An interruption that comes before the thread has begun meets no run that it could end.
_AGAIN_S = 0.02


async def run_interruptibly(
    thread: Executor, interrupt: Callable[[], None], run: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return what `run` gives on the thread. Cancelled, it ends the run, and returns only when the thread is free.

    Args:
        thread: Which does one thing at a time.
        interrupt: Ends the run in flight; called again and again until it is over.
        run: May raise when it is interrupted.
        *args: Its arguments.
        **kwargs: Its keyword arguments.
    """
    running = thread.submit(run, *args, **kwargs)
    waited = asyncio.wrap_future(running)
    try:
        return await asyncio.shield(waited)
    except asyncio.CancelledError:
        while not (running.cancel() or running.done()):
            interrupt()
            await asyncio.wait([waited], timeout=_AGAIN_S)
        if not waited.cancelled() and waited.done():
            waited.exception()  # nobody is told of it
        raise

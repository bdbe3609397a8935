"""An event loop whose time passes at once when nobody has anything to do: waits of minutes cost nothing, in order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _NeverWaits(selectors.DefaultSelector):
    """Where the loop would wait, its clock is moved instead."""

    def __init__(self) -> None:
        super().__init__()
        self.passed_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits, and nothing will ever come")
        if not ready and timeout is not None:
            self.passed_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop for what opens no socket. What would go to a thread is done at once: a thread's time is not virtual."""

    def __init__(self) -> None:
        self._virtual = _NeverWaits()
        super().__init__(self._virtual)

    def time(self) -> float:
        return 1000.0 + self._virtual.passed_s

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        async def done() -> Any:
            return func(*args)

        return self.create_task(done())


def in_virtual_time(work: Callable[[Callable[[], float]], Coroutine[Any, Any, T]]) -> T:
    """Run `work`, which is given the clock, to its end; nothing it started may be left running."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()

        async def whole() -> T:
            try:
                return await work(loop.time)
            finally:
                here = asyncio.current_task()
                left = [task for task in asyncio.all_tasks() if task is not here and not task.done()]
                assert not left, f"left running: {left}"

        return runner.run(whole())

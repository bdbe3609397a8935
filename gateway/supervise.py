"""Keeps programs running: all started at once, each again when it ends, stopped one after the other.

`tidegate up` is made of this. Elsewhere systemd or Kubernetes does that work, and the programs run without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.child import Child, ChildSpec

OWN_NAME = "tidegate"
DONE, GAVE_UP, INTERRUPTED = 0, 1, 128 + signal.SIGINT


@dataclass(frozen=True, slots=True)
class Patience:
    """How patient the supervisor is.

    Attributes:
        first_wait_s: Before the first new start of a child; every further one waits twice as long.
        longest_wait_s: Where the doubling ends.
        steady_s: A child that ran for so long is sound: the waits begin anew.
        failed_starts: So many ends of a child that has never been sound or ready, and nothing will come of it.
        drain_s: What each child gets between SIGTERM and SIGKILL.
    """

    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    steady_s: float = 60.0
    failed_starts: int = 3
    drain_s: float = 35.0


class Backoff:
    """How long to wait before a child is started again: twice as long each time, so that a broken one costs little."""

    def __init__(self, patience: Patience) -> None:
        """Begin with the shortest wait."""
        self._patience = patience
        self._next_s = patience.first_wait_s

    def after(self, ran_s: float) -> float:
        """Return the wait, in seconds, after a run of `ran_s`."""
        if ran_s >= self._patience.steady_s:
            self._next_s = self._patience.first_wait_s
        wait_s = self._next_s
        self._next_s = min(2 * wait_s, self._patience.longest_wait_s)
        return wait_s


class Supervisor:
    """Runs children until a signal, or until one of them turns out not to be startable."""

    def __init__(
        self,
        children: Sequence[ChildSpec],
        say: Callable[[str, str], None],
        *,
        patience: Patience,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start nothing yet.

        Args:
            children: In the order of starting. They are stopped the other way round, one when the one before has
                ended, so that what depends on others comes last: a gateway drains while its runtimes still answer.
            say: Takes a program's name and a line of it; `OWN_NAME` is the supervisor's.
            patience: Waits and bounds.
            clock: Monotonic seconds.
        """
        self._children = [Child(spec, functools.partial(say, spec.name)) for spec in children]
        self._say = functools.partial(say, OWN_NAME)
        self._patience = patience
        self._clock = clock
        self._ending = asyncio.Event()
        self._exit_status = DONE

    async def run(self) -> int:
        """Keep the children running, and return the exit status once none of them runs any more.

        SIGINT and SIGTERM drain. A second SIGINT kills; a second SIGTERM does not, since make and timeout both send
        one to a process that also gets it through its group.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._take_signal, number)
        try:
            async with asyncio.TaskGroup() as group:
                kept = []
                for child in self._children:
                    stopping = asyncio.Event()
                    kept.append((stopping, group.create_task(self._keep(child, stopping), name=child.spec.name)))
                await self._ending.wait()
                for stopping, keeping in reversed(kept):
                    stopping.set()
                    await keeping
        finally:
            self._kill()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        return self._exit_status

    def _take_signal(self, number: signal.Signals) -> None:
        if not self._ending.is_set():
            self._say("Stopping: requests in flight are finished first. Ctrl-C once more kills at once.")
            self._ending.set()
        elif number == signal.SIGINT:
            self._say("Killed.")
            self._exit_status = INTERRUPTED
            self._kill()

    def _kill(self) -> None:
        for child in self._children:
            child.kill()

    async def _keep(self, child: Child, stopping: asyncio.Event) -> None:
        backoff = Backoff(self._patience)
        name = child.spec.name
        sound = False
        runs = 0
        while not self._ending.is_set():
            began = self._clock()
            how = await child.run(stopping, self._patience.drain_s)
            ran_s = self._clock() - began
            runs += 1
            sound = sound or child.has_been_ready or ran_s >= self._patience.steady_s
            if self._ending.is_set():
                self._say(f"{name} {how}.")
            elif not sound and runs >= self._patience.failed_starts:
                self._say(f"{name} {how}, {runs} times, and was never ready. Its last line: {child.last_line}")
                self._exit_status = GAVE_UP
                self._ending.set()
            else:
                wait_s = backoff.after(ran_s)
                self._say(f"{name} {how}; it is started again in {wait_s:g} s.")
                await self._wait(wait_s)

    async def _wait(self, wait_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._ending.wait()

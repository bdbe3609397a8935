"""One child process: started in a group of its own, its output cut into lines, ended with all that it has started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]

_TETHER = Path(__file__).with_name("tether.py")
_MAX_LINE_BYTES = 64 << 10
_PROBE_EVERY_S = 0.25
_PROBE_TIMEOUT_S = 2.0
_LAST_WORDS_S = 1.0


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A program to run.

    Attributes:
        name: What a person calls it.
        argv: The program and its arguments.
        env: Its whole environment.
        ready: Asks the running program whether it can do its work; `None` where it cannot be asked.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    ready: Callable[[], Awaitable[bool]] | None = None


class Child:
    """A program, and the one process of it that may be running.

    Attributes:
        has_been_ready: Whether it ever said that it can do its work.
        last_line: The last line it wrote that is not blank.
    """

    def __init__(self, spec: ChildSpec, say: Say) -> None:
        """Start nothing yet; `say` takes each line that the program writes."""
        self.spec = spec
        self.has_been_ready = False
        self.last_line = ""
        self._say = say
        self._process: Process | None = None
        self._doomed = False

    async def run(self, stopping: asyncio.Event, drain_s: float) -> str:
        """Run the program once, and say how it ended.

        Args:
            stopping: Once set, the process gets SIGTERM.
            drain_s: What it has then until SIGKILL.
        """
        try:
            process, lines = await self._start()
        except OSError as exc:
            return f"could not be started: {exc.strerror}"
        self._process = process
        probing = asyncio.create_task(self._probe())
        try:
            return await self._end_of(process, stopping, drain_s)
        finally:
            self._process = None
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
            await lines.drained(_LAST_WORDS_S)

    def kill(self) -> None:
        """End the process and what it has started, at once; one that is just being started does not get far."""
        self._doomed = True
        if self._process is not None:
            _signal(os.killpg, self._process, signal.SIGKILL)

    async def _start(self) -> tuple[Process, _Lines]:
        # Its own pipe instead of asyncio's, whose `wait` goes on for as long as anybody holds the other end open.
        reading, writing = os.pipe()
        lines = _Lines(self._take_line)
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: lines, os.fdopen(reading, "rb", buffering=0)
            )
            lines.transport = transport
            tether = (sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()))
            process = await asyncio.create_subprocess_exec(
                *tether,
                *self.spec.argv,
                env=dict(self.spec.env),
                stdin=DEVNULL,
                stdout=writing,
                stderr=writing,
                process_group=0,  # so that a terminal's Ctrl-C reaches the supervisor alone, which knows the order
            )
        finally:
            os.close(writing)
        return process, lines

    async def _end_of(self, process: Process, stopping: asyncio.Event, drain_s: float) -> str:
        ended = asyncio.create_task(process.wait())
        stopped = asyncio.create_task(stopping.wait())
        in_time = True
        try:
            if not self._doomed:
                await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if not ended.done():
                    # Not `process.terminate`, which polls, and so can take the exit status that `wait` waits for.
                    _signal(os.kill, process, signal.SIGTERM)
                    await asyncio.wait({ended}, timeout=drain_s)
                    in_time = ended.done()
        finally:
            _signal(os.killpg, process, signal.SIGKILL)
            stopped.cancel()
            await ended
        return _ending(ended.result()) if in_time else f"did not end within {drain_s:g} s and was killed"

    async def _probe(self) -> None:
        if self.spec.ready is None:
            return
        while True:
            if await _answers(self.spec.ready):
                self.has_been_ready = True
                return
            await asyncio.sleep(_PROBE_EVERY_S)

    def _take_line(self, line: str) -> None:
        if line.strip():
            self.last_line = line.strip()
        self._say(line)


class _Lines(asyncio.Protocol):
    """Cuts what comes out of a pipe into lines; one that has no end is cut where it gets too long."""

    transport: asyncio.ReadTransport

    def __init__(self, take_line: Say) -> None:
        self._take_line = take_line
        self._rest = b""
        self._closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MAX_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._take_line(line.decode("utf-8", "replace").rstrip("\r"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._rest:
            self._take_line(self._rest.decode("utf-8", "replace"))
        self._closed.set()

    async def drained(self, timeout_s: float) -> None:
        """Wait for the last line, though not for a process that has left the group and keeps the pipe open."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._closed.wait()
        self.transport.close()
        await self._closed.wait()


async def _answers(ready: Callable[[], Awaitable[bool]]) -> bool:
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            return await ready()
    except TimeoutError:
        return False


def _signal(send: Callable[[int, int], None], process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        send(process.pid, number)


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by signal {-status} ({signal.strsignal(-status)})"

"""One process that answers JSON lines with JSON lines: loaded before it is asked, and started anew whenever it ends.

Loading takes seconds, so no call starts it: until it has said that it is ready, calls fail at once. A question that
runs out of time cannot be taken back, and what a process that threw, hung or babbled says next cannot be believed. So
it is killed, which also bounds what it may cost. A caller who gives up is no reason to kill it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import orjson

from gateway.detectors.detector import DetectorFailed
from gateway.supervise import Backoff, Patience

_LONGEST_ANSWER_BYTES = 4 << 20

_logger = logging.getLogger(__name__)


class Worker:
    """Keeps one process running, and asks it one question at a time."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], *, start_timeout_s: float, patience: Patience | None = None
    ) -> None:
        """Start nothing yet.

        Args:
            argv: The program. Its first line says `{"ready": true}`, each further one answers a line.
            env: Its whole environment.
            start_timeout_s: In which it must be ready.
            patience: The waits between one start and the next.
        """
        self._argv = tuple(argv)
        self._env = dict(env)
        self._start_timeout_s = start_timeout_s
        self._patience = patience or Patience()
        self._ready: Process | None = None
        self._turn = asyncio.Lock()
        self._asking: set[asyncio.Task[Any]] = set()
        self._ids = count(1)

    @property
    def pid(self) -> int | None:
        """Of the process, while it can be asked."""
        return None if self._ready is None else self._ready.pid

    async def run(self) -> None:
        """Keep a process running until cancelled."""
        backoff = Backoff(self._patience)
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            how = await self._run_once()
            wait_s = backoff.after(clock() - began)
            _logger.warning("A detector's process %s; it is started again in %g s", how, wait_s)
            await asyncio.sleep(wait_s)

    async def ask(self, question: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Return what the process answers.

        Raises:
            DetectorFailed: It did not, or not in time; waiting for earlier questions counts.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._turn.acquire()
                # A task of its own, since an answer must be read to its end whoever still waits for it.
                task = asyncio.create_task(self._answer({**question, "id": next(self._ids)}, timeout_s))
                self._asking.add(task)
                task.add_done_callback(self._done)
                answer = await asyncio.shield(task)
        except TimeoutError:
            raise DetectorFailed(f"no answer within {timeout_s:g} s") from None
        if isinstance(answer, DetectorFailed):
            raise answer
        return answer

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._asking.discard(task)
        self._turn.release()

    async def _answer(self, question: Mapping[str, Any], timeout_s: float) -> dict[str, Any] | DetectorFailed:
        """Ask, and return the answer or why there is none, in which case the process is killed."""
        process = self._ready
        if process is None:
            return DetectorFailed("its process is not ready")
        assert process.stdin is not None, "it was made with pipes"
        assert process.stdout is not None, "it was made with pipes"
        try:
            async with asyncio.timeout(timeout_s):
                process.stdin.write(orjson.dumps(question) + b"\n")
                await process.stdin.drain()
                answer = orjson.loads(await process.stdout.readline())
            if isinstance(answer, dict) and answer.get("id") == question["id"]:
                return answer
            failure = DetectorFailed("it answered something else than it was asked")
        except TimeoutError:
            failure = DetectorFailed(f"no answer within {timeout_s:g} s")
        except (OSError, ValueError) as exc:
            # A line that is too long, no JSON or none at all, a pipe that broke.
            failure = DetectorFailed(type(exc).__name__)
        if self._ready is process:
            self._ready = None
        _kill(process)
        return failure

    async def _run_once(self) -> str:
        """Start the process, let it be asked once it is ready, and say how it ended."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                env=self._env,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,  # a traceback may quote what it was asked
                limit=_LONGEST_ANSWER_BYTES,
                start_new_session=True,  # a group of its own to kill; uvloop knows no other way to that
            )
        except OSError as exc:
            return f"could not be started ({type(exc).__name__})"
        assert process.stdout is not None, "it was made with pipes"
        try:
            async with asyncio.timeout(self._start_timeout_s):
                first = await process.stdout.readline()
            if orjson.loads(first) != {"ready": True}:
                return "began by something else than that it is ready"
            self._ready = process
            return f"ended with status {await process.wait()}"
        except TimeoutError:
            return f"was not ready within {self._start_timeout_s:g} s"
        except ValueError:
            return "ended, or babbled, before it was ready"
        finally:
            self._ready = None
            _kill(process)
            await asyncio.shield(_ended(process))


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _ended(process: Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()

"""One process that answers JSON lines with JSON lines. Whatever goes wrong ends it; the next call starts another.

A call that runs out of time cannot be told to stop, and what a process that threw, hung or babbled says next cannot be
believed. So it is killed, which also bounds what it may cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import orjson

from gateway.detectors.detector import DetectorFailed

_LONGEST_ANSWER_BYTES = 4 << 20


class Worker:
    """Asks one process, one call at a time."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Start nothing yet."""
        self._argv = tuple(argv)
        self._env = dict(env)
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._ids = count(1)

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

    async def ask(self, question: Mapping[str, Any], timeout_s: float) -> Any:
        """Return what the process answers.

        Raises:
            DetectorFailed: It did not, or not in time; waiting for earlier calls counts.
        """
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                return await self._asked({**question, "id": next(self._ids)})
        except TimeoutError:
            raise DetectorFailed(f"no answer within {timeout_s:g} s") from None

    async def aclose(self) -> None:
        """End the process."""
        async with self._turn:
            await self._end()

    async def _asked(self, question: Mapping[str, Any]) -> Any:
        try:
            process = await self._running()
            assert process.stdin is not None, "it was made with pipes"
            assert process.stdout is not None, "it was made with pipes"
            process.stdin.write(orjson.dumps(question) + b"\n")
            await process.stdin.drain()
            answer = orjson.loads(await process.stdout.readline())
            if not isinstance(answer, dict) or answer.get("id") != question["id"]:
                raise DetectorFailed("it answered something else than it was asked")
        except (OSError, ValueError) as exc:
            # A line that is too long, no JSON or none at all, a pipe that broke.
            await self._end()
            raise DetectorFailed(type(exc).__name__) from None
        except BaseException:
            await self._end()
            raise
        return answer

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                env=self._env,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,  # a traceback may quote what it was asked
                limit=_LONGEST_ANSWER_BYTES,
                process_group=0,
            )
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdin is not None:
            process.stdin.close()
        await asyncio.shield(process.wait())

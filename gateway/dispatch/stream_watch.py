"""Watches one relayed stream: its silences, its length, and a caller who takes nothing.

One timer for the whole stream, and it is lazy: while events come it only looks, now and then, at what has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from starlette.requests import ClientDisconnect

from gateway.answer import AnswerFacts
from inference_protocol.errors import UpstreamCut, UpstreamTimedOut


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Seconds.

    Attributes:
        idle_s: Longest silence of the target between two events with data; its pings do not count.
        total_s: Longest time until the end.
        reader_s: Longest time that a caller may take to make room for the next bytes.
        ping_s: Silence after which the caller is sent a comment, so that nothing on the way takes the stream for dead.
    """

    idle_s: float
    total_s: float
    reader_s: float
    ping_s: float

    @property
    def look_s(self) -> float:
        """Between looks: often enough that no limit is passed by more than a quarter."""
        return min(self.idle_s, self.total_s, self.reader_s, self.ping_s) / 4


class StreamWatch:
    """An asynchronous context in which a stream is relayed; it ends the relaying when a limit is passed.

    Attributes:
        begun, done: Sends to the caller; whoever sends counts them.
    """

    __slots__ = (
        "_done_seen",
        "_ends_at",
        "_facts",
        "_frames_seen",
        "_heard_at",
        "_limits",
        "_loop",
        "_passed",
        "_ping",
        "_pings",
        "_task",
        "_timer",
        "_written_at",
        "begun",
        "done",
    )

    def __init__(self, facts: AnswerFacts, limits: StreamLimits, ping: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Watch a stream that the current task relays.

        Args:
            facts: Of the answer; new frames in it are a sign of life.
            limits: What is too long.
            ping: Sends the caller a comment.
        """
        self.begun = self.done = 0
        self._facts = facts
        self._limits = limits
        self._ping = ping
        self._pings: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._passed: Exception | None = None
        self._heard_at = self._written_at = now = self._loop.time()
        self._ends_at = now + limits.total_s
        self._frames_seen, self._done_seen = facts.frames, 0
        self._timer: asyncio.TimerHandle = self._loop.call_later(limits.look_s, self._look)

    async def __aenter__(self) -> Self:
        """Relay inside."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching.

        Raises:
            UpstreamCut: The target fell silent.
            UpstreamTimedOut: The answer took too long.
            ClientDisconnect: The caller takes nothing any more.
        """
        self._timer.cancel()
        for ping in self._pings:
            ping.cancel()
        if self._passed is not None and isinstance(error, asyncio.CancelledError):
            assert self._task is not None, "a stream is relayed by a task"
            if self._task.uncancel() == 0:
                raise self._passed from None

    def _look(self) -> None:
        now = self._loop.time()
        if self.done != self._done_seen:
            self._done_seen, self._written_at = self.done, now
        if self._facts.frames != self._frames_seen or self.begun != self.done:
            # While the caller does not take what there is, nobody asks the target for more.
            self._frames_seen, self._heard_at = self._facts.frames, now
        self._passed = self._failure(now)
        if self._passed is not None:
            assert self._task is not None, "a stream is relayed by a task"
            self._task.cancel()
            return
        if self.begun == self.done and now - self._written_at >= self._limits.ping_s:
            self._written_at = now
            ping = self._loop.create_task(self._ping(), name="stream-ping")
            self._pings.add(ping)
            ping.add_done_callback(self._pings.discard)
        self._timer = self._loop.call_later(self._limits.look_s, self._look)

    def _failure(self, now: float) -> Exception | None:
        limits = self._limits
        if self.begun != self.done and now - self._written_at >= limits.reader_s:
            return ClientDisconnect()
        if now >= self._ends_at:
            return UpstreamTimedOut(f"The answer was not complete after {limits.total_s:g} s.")
        if now - self._heard_at >= limits.idle_s:
            return UpstreamCut(f"The target fell silent for {limits.idle_s:g} s in its answer.")
        return None

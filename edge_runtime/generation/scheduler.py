"""Which request runs when: continuous batching over the slots of a key/value cache.

The requests that generate always own slots 0 to b − 1, so that one run of the graph serves exactly them. One more
request may be reading its prompt, a chunk at a time, in any slot above; when it is done it moves to slot b. Whoever
leaves is replaced by the last row.

    slots   0 ─ running ─ b−1 | … reading … |
    queue   waiting, first come first served

There is no thread, no socket and no session here, only the order of things.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from edge_runtime.generation.choosing import Chooser
from edge_runtime.generation.errors import GraphRunFailed
from edge_runtime.generation.graph import Graph
from edge_runtime.generation.occupancy import Occupancy
from edge_runtime.generation.request import Request
from runtime_server.engine import RUN_FAILED, FinishReason, TokenEvent
from runtime_server.speed_meter import SpeedMeter

_logger = logging.getLogger(__name__)
_RUN_FAILED = TokenEvent(finish=FinishReason.ERROR, error=RUN_FAILED)

News = list[tuple[Request, TokenEvent]]


class Scheduler:
    """Owns the requests between admission and their last event. Every method is for one thread only."""

    def __init__(
        self, graph: Graph, *, chunk: int, occupancy: Occupancy, speed: SpeedMeter, clock: Callable[[], float]
    ) -> None:
        """Build a scheduler.

        Args:
            graph: The model.
            chunk: Most prompt tokens read in one step: running requests stall for that long.
            occupancy: Where requests are counted; `add` takes those that it admitted.
            speed: Where the steps' durations go.
            clock: Seconds, the same that deadlines are told in.
        """
        self._graph = graph
        self._chunk = chunk
        self._occupancy = occupancy
        self._speed = speed
        self._clock = clock
        self._choose = Chooser()
        self._waiting: deque[Request] = deque()
        self._reading: Request | None = None
        self._running: list[Request] = []  # the index is the slot

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""
        return not (self._waiting or self._reading or self._running)

    def add(self, request: Request) -> None:
        """Put an admitted request at the end of the queue."""
        self._waiting.append(request)

    def cancel(self, request: Request) -> News:
        """Drop a request wherever it stands; nothing happens if it has ended."""
        if request.moments.ended is not None:
            return []
        return [self._end(request, TokenEvent(finish=FinishReason.CANCELLED))]

    def cancel_all(self) -> News:
        """Drop every request."""
        everyone = [*self._silent(), *self._running]
        return [news for request in everyone for news in self.cancel(request)]

    def expire(self) -> News:
        """End those whose deadline passed before they said anything."""
        now = self._clock()
        late = [request for request in self._silent() if request.job.is_late(now)]
        return [self._end(request, TokenEvent(finish=FinishReason.LENGTH)) for request in late]

    def prefill(self) -> News:
        """Read one chunk of one prompt, of the first in the queue if nobody is reading and a slot is free."""
        request = self._reading or self._begin_reading()
        if request is None:
            return []
        assert request.slot is not None
        tokens = request.job.prompt[request.length : request.length + self._chunk]
        began = self._clock()
        try:
            logits = self._graph.read(request.slot, tokens, request.length, request.wanted(len(tokens)))
        except GraphRunFailed as error:
            _logger.warning("Reading a prompt failed: %s", error)
            return [self._end(request, _RUN_FAILED)]
        now = self._clock()
        request.read(len(tokens), logits)
        self._occupancy.read(len(tokens))
        if 2 * len(tokens) > self._chunk:
            self._speed.add_prefill(len(tokens), now - began)
        if request.unread:
            return []
        request.moments.prefilled = now
        [event] = self._choose([request], logits[-1:], now + self._speed.decode_s(len(self._running) + 1))
        if event.finish is None:
            self._join(request)
        return [self._settle(request, event)]

    def decode(self) -> News:
        """Generate one token for every running request."""
        rows = list(self._running)
        if not rows:
            return []
        began = self._clock()
        try:
            logits = self._graph.decode([row.last_token for row in rows], [row.length for row in rows])
        except GraphRunFailed as error:
            _logger.warning("A step of %d requests failed: %s", len(rows), error)
            return [self._end(row, _RUN_FAILED) for row in rows]
        now = self._clock()
        self._speed.add_decode(len(rows), now - began)
        next_token_at = now + self._speed.decode_s(len(rows))
        for row in rows:
            row.length += 1
        events = self._choose(rows, logits, next_token_at)
        return [self._settle(row, event) for row, event in zip(rows, events, strict=True)]

    def _silent(self) -> list[Request]:
        """Return those that have said nothing yet."""
        return [*self._waiting, *([self._reading] if self._reading else [])]

    def _begin_reading(self) -> Request | None:
        if not self._waiting or len(self._running) == self._graph.slots:
            return None
        request = self._waiting.popleft()
        request.slot = len(self._running)
        request.moments.started = self._clock()
        self._occupancy.start()
        self._reading = request
        return request

    def _join(self, request: Request) -> None:
        assert request.slot is not None
        self._reading = None
        self._relocate(request, len(self._running))
        self._running.append(request)

    def _settle(self, request: Request, event: TokenEvent) -> tuple[Request, TokenEvent]:
        return (request, event) if event.finish is None else self._end(request, event)

    def _end(self, request: Request, event: TokenEvent) -> tuple[Request, TokenEvent]:
        """Free whatever the request holds."""
        if request.slot is None:
            self._waiting.remove(request)
        elif request is self._reading:
            self._reading = None
        else:
            last = self._running.pop()
            if last is not request:
                self._relocate(last, request.slot)
                self._running[request.slot] = last
        self._occupancy.leave(running=request.slot is not None, unread=request.unread)
        request.moments.ended = self._clock()
        return request, event

    def _relocate(self, request: Request, slot: int) -> None:
        assert request.slot is not None
        if request.slot != slot:
            self._graph.move(request.slot, slot, request.length)
            request.slot = slot

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

from edge_runtime.generation.errors import GraphRunFailed
from edge_runtime.generation.graph import Graph
from edge_runtime.generation.occupancy import Occupancy
from edge_runtime.generation.sequence import Sequence
from runtime_server.engine import FinishReason, TokenEvent
from runtime_server.speed_meter import SpeedMeter

_log = logging.getLogger(__name__)
_RUN_FAILED = TokenEvent(finish=FinishReason.ERROR, error="The model could not be run on this request.")

News = list[tuple[Sequence, TokenEvent]]


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
        self._waiting: deque[Sequence] = deque()
        self._reading: Sequence | None = None
        self._running: list[Sequence] = []  # the index is the slot

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""
        return not (self._waiting or self._reading or self._running)

    def add(self, sequence: Sequence) -> None:
        """Put an admitted request at the end of the queue."""
        self._waiting.append(sequence)

    def cancel(self, sequence: Sequence) -> News:
        """Drop a request wherever it stands; nothing happens if it has ended."""
        if sequence.moments.ended is not None:
            return []
        return [self._end(sequence, TokenEvent(finish=FinishReason.CANCELLED))]

    def cancel_all(self) -> News:
        """Drop every request."""
        everyone = [*self._silent(), *self._running]
        return [news for sequence in everyone for news in self.cancel(sequence)]

    def expire(self) -> News:
        """End those whose deadline passed before they said anything."""
        now = self._clock()
        late = [sequence for sequence in self._silent() if sequence.is_late(now)]
        return [self._end(sequence, TokenEvent(finish=FinishReason.LENGTH)) for sequence in late]

    def prefill(self) -> News:
        """Read one chunk of one prompt, of the first in the queue if nobody is reading and a slot is free."""
        sequence = self._reading or self._begin_reading()
        if sequence is None:
            return []
        assert sequence.slot is not None
        tokens = sequence.job.prompt[sequence.length : sequence.length + self._chunk]
        began = self._clock()
        try:
            logits = self._graph.prefill(sequence.slot, tokens, sequence.length)
        except GraphRunFailed as error:
            _log.warning("Reading a prompt failed: %s", error)
            return [self._end(sequence, _RUN_FAILED)]
        now = self._clock()
        sequence.length += len(tokens)
        self._occupancy.read(len(tokens))
        if 2 * len(tokens) > self._chunk:
            self._speed.add_prefill(len(tokens), now - began)
        if sequence.unread:
            return []
        sequence.moments.prefilled = now
        event = sequence.take(logits, now + self._speed.decode_s(len(self._running) + 1))
        if event.finish is None:
            self._join(sequence)
        return [self._settle(sequence, event)]

    def decode(self) -> News:
        """Generate one token for every running request."""
        rows = list(self._running)
        if not rows:
            return []
        began = self._clock()
        try:
            logits = self._graph.decode([row.last_token for row in rows], [row.length for row in rows])
        except GraphRunFailed as error:
            _log.warning("A step of %d requests failed: %s", len(rows), error)
            return [self._end(row, _RUN_FAILED) for row in rows]
        now = self._clock()
        self._speed.add_decode(len(rows), now - began)
        next_token_at = now + self._speed.decode_s(len(rows))
        news = []
        for index, row in enumerate(rows):
            row.length += 1
            news.append((row, row.take(logits[index], next_token_at)))
        return [self._settle(row, event) for row, event in news]

    def _silent(self) -> list[Sequence]:
        """Return those that have said nothing yet."""
        return [*self._waiting, *([self._reading] if self._reading else [])]

    def _begin_reading(self) -> Sequence | None:
        if not self._waiting or len(self._running) == self._graph.slots:
            return None
        sequence = self._waiting.popleft()
        sequence.slot = len(self._running)
        sequence.moments.started = self._clock()
        self._occupancy.start()
        self._reading = sequence
        return sequence

    def _join(self, sequence: Sequence) -> None:
        assert sequence.slot is not None
        self._reading = None
        self._relocate(sequence, len(self._running))
        self._running.append(sequence)

    def _settle(self, sequence: Sequence, event: TokenEvent) -> tuple[Sequence, TokenEvent]:
        return (sequence, event) if event.finish is None else self._end(sequence, event)

    def _end(self, sequence: Sequence, event: TokenEvent) -> tuple[Sequence, TokenEvent]:
        """Free whatever the request holds."""
        if sequence.slot is None:
            self._waiting.remove(sequence)
        elif sequence is self._reading:
            self._reading = None
        else:
            last = self._running.pop()
            if last is not sequence:
                self._relocate(last, sequence.slot)
                self._running[sequence.slot] = last
        self._occupancy.leave(running=sequence.slot is not None, unread=sequence.unread)
        sequence.moments.ended = self._clock()
        return sequence, event

    def _relocate(self, sequence: Sequence, slot: int) -> None:
        assert sequence.slot is not None
        if sequence.slot != slot:
            self._graph.move(sequence.slot, slot, sequence.length)
            sequence.slot = slot

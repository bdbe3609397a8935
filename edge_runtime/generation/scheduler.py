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
from array import array
from collections import deque
from collections.abc import Callable, Sequence

from edge_runtime.generation.choosing import Chooser
from edge_runtime.generation.drafting import Drafter
from edge_runtime.generation.errors import GraphInterrupted, GraphRunFailed
from edge_runtime.generation.graph import Graph
from edge_runtime.generation.occupancy import Occupancy
from edge_runtime.generation.prefix_store import PrefixStore
from edge_runtime.generation.request import Request
from edge_runtime.generation.slots import Reuse, Slots
from inference_protocol.engine_steps import EngineStep, StepKind
from runtime_server.engine import RUN_FAILED, FinishReason, TokenEvent
from runtime_server.speed_meter import SpeedMeter

_logger = logging.getLogger(__name__)
_STEPS_KEPT = 512
_NO_REUSE = Reuse()

News = list[tuple[Request, TokenEvent]]


class Scheduler:
    """Owns the requests between admission and their last event. Every method is for one thread only.

    Attributes:
        drafter: Makes drafts for a request that runs alone, or `None`. Its counts may be read from any thread.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        chunk: int,
        occupancy: Occupancy,
        speed: SpeedMeter,
        clock: Callable[[], float],
        reuse: Reuse = _NO_REUSE,
        drafter: Drafter | None = None,
        prefixes: PrefixStore | None = None,
    ) -> None:
        """Build a scheduler.

        Args:
            graph: The model.
            chunk: Most prompt tokens read in one step: running requests stall for that long.
            occupancy: Where requests are counted; `add` takes those that it admitted.
            speed: Where the steps' durations go.
            clock: Seconds, the same that deadlines are told in.
            reuse: How what requests leave is used again.
            drafter: Makes drafts for a request that runs alone; `None` checks none.
            prefixes: Keys and values on the disk.
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
        self._slots = Slots(graph, reuse)
        self.drafter = drafter if graph.can_verify else None
        self._prefixes = prefixes
        self._steps: deque[EngineStep] = deque(maxlen=_STEPS_KEPT)

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""
        return not (self._waiting or self._reading or self._running)

    @property
    def steps(self) -> list[EngineStep]:
        """The latest steps, oldest first. Safe from any thread."""
        return list(self._steps)

    def close(self) -> None:
        """Finish what goes to the disk."""
        if self._prefixes is not None:
            self._prefixes.close()

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
        return [] if self._restore(request) else self._read(request)

    def decode(self) -> News:
        """Generate one token for every running request, or several for one that runs alone."""
        rows = list(self._running)
        if not rows:
            return []
        if len(rows) == 1 and self.drafter is not None and not self._silent():
            row = rows[0]
            said = self._slots.tokens(0) + array("q", (row.last_token,))
            draft = self.drafter.draft(said, row.job.max_tokens - row.said - 1, self._speed.decode_s(1))
            if draft:
                return self._check(row, draft, self.drafter)
        began = self._clock()
        try:
            logits = self._graph.decode([row.last_token for row in rows], [row.length for row in rows])
        except GraphRunFailed as error:
            return [self._end(row, _failure(error)) for row in rows]
        now = self._clock()
        self._speed.add_decode(len(rows), now - began)
        for row in rows:
            self._feed(row)
        events = self._choose(rows, logits, now + self._speed.decode_s(len(rows)))
        self._note(StepKind.DECODE, began, rows, len(rows))
        return [self._settle(row, event) for row, event in zip(rows, events, strict=True)]

    def _restore(self, request: Request) -> bool:
        """Take one block of a prompt from the disk; say whether it was there."""
        assert request.slot is not None
        if self._prefixes is None or request.job.prompt_logprobs:
            return False
        began = self._clock()
        found = self._prefixes.find(request.job.cache_salt, request.job.prompt, request.length)
        if found is None:
            return False
        self._graph.put_keys_and_values(request.slot, request.length, found)
        count = found.shape[3]
        self._slots.read(request.slot, request.job.prompt[request.length : request.length + count])
        request.reuse(count)
        self._occupancy.read(count)
        self._note(StepKind.RESTORE, began, [request], count)
        return True

    def _read(self, request: Request) -> News:
        assert request.slot is not None
        # Never one token alone, unless it is the whole prompt: its last bits would hang on where the prompt was cut.
        count = self._chunk - (request.unread == self._chunk + 1)
        tokens = request.job.prompt[request.length : request.length + count]
        began = self._clock()
        try:
            logits = self._graph.read(request.slot, tokens, request.length, request.wanted(len(tokens)))
        except GraphRunFailed as error:
            return [self._end(request, _failure(error))]
        now = self._clock()
        self._slots.read(request.slot, tokens)
        request.read(len(tokens), logits)
        self._occupancy.read(len(tokens))
        if 2 * len(tokens) > self._chunk:
            self._speed.add_prefill(len(tokens), now - began)
        if request.unread:
            self._note(StepKind.READ, began, [request], len(tokens))
            return []
        request.moments.prefilled = now
        self._keep_on_disk(request)
        [event] = self._choose([request], logits[-1:], now + self._speed.decode_s(len(self._running) + 1))
        self._note(StepKind.READ, began, [request], len(tokens))
        if event.finish is None:
            self._join(request)
        return [self._settle(request, event)]

    def _check(self, row: Request, draft: Sequence[int], drafter: Drafter) -> News:
        """Read a draft at once; say what the model says after each of its tokens, for as long as the two agree."""
        began = self._clock()
        try:
            logits = self._graph.verify([row.last_token, *draft], row.length)
        except GraphRunFailed as error:
            return [self._end(row, _failure(error))]
        now = self._clock()
        events: list[TokenEvent] = []
        for place in range(len(draft) + 1):
            self._feed(row)
            events += self._choose([row], logits[place : place + 1], now + self._speed.decode_s(1))
            if events[-1].finish is not None or events[-1].tokens != tuple(draft[place : place + 1]):
                break
        accepted = len(events) - 1
        drafter.checked(len(draft), accepted, now - began)
        self._note(StepKind.CHECK, began, [row], 1 + len(draft), accepted)
        return [*((row, event) for event in events[:-1]), self._settle(row, events[-1])]

    def _feed(self, row: Request) -> None:
        """Take note that the newest token of a running request stands in its slot."""
        assert row.slot is not None
        self._slots.append(row.slot, row.last_token)
        row.length += 1

    def _keep_on_disk(self, request: Request) -> None:
        slot = request.slot
        if self._prefixes is None or not request.job.may_be_kept or slot is None:
            return
        self._prefixes.keep(
            request.job.cache_salt,
            request.job.prompt,
            lambda begin, end: self._graph.keys_and_values(slot, begin, end),
        )

    def _note(self, kind: StepKind, began: float, rows: Sequence[Request], tokens: int, accepted: int = 0) -> None:
        ids = tuple(row.job.request_id for row in rows)
        duration_ms = (self._clock() - began) * 1000
        self._steps.append(
            EngineStep(kind, began, duration_ms, ids, rows[0].slot or 0, tokens, accepted, len(self._waiting))
        )

    def _silent(self) -> list[Request]:
        """Return those that have said nothing yet."""
        return [*self._waiting, *([self._reading] if self._reading else [])]

    def _begin_reading(self) -> Request | None:
        if not self._waiting or len(self._running) == self._graph.slots:
            return None
        request = self._waiting.popleft()
        job = request.job
        most = (
            0 if job.prompt_logprobs else max(0, len(job.prompt) - 2)
        )  # two are read: the last one's logits are wanted
        request.slot, shared = self._slots.claim(len(self._running), job.cache_salt, job.prompt, most)
        request.moments.started = self._clock()
        self._occupancy.start()
        request.reuse(shared)
        self._occupancy.read(shared)
        self._reading = request
        return request

    def _join(self, request: Request) -> None:
        assert request.slot is not None
        self._reading = None
        self._slots.exchange(request.slot, len(self._running))
        request.slot = len(self._running)
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
                assert last.slot is not None
                self._slots.exchange(request.slot, last.slot)
                last.slot = request.slot
                self._running[last.slot] = last
        owned = None if self._reading is None else self._reading.slot
        self._slots.trim(slot for slot in range(len(self._running), self._graph.slots) if slot != owned)
        self._occupancy.leave(running=request.slot is not None, unread=request.unread)
        request.moments.ended = self._clock()
        return request, event


def _failure(error: GraphRunFailed) -> TokenEvent:
    if isinstance(error, GraphInterrupted):
        return TokenEvent(finish=FinishReason.CANCELLED)
    _logger.warning("A run of the model failed: %s", error)
    return TokenEvent(finish=FinishReason.ERROR, error=RUN_FAILED)

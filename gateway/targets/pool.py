"""The addresses of one target: which of them takes an attempt, and who waits while all their places are taken.

Of two addresses drawn at random the one that is expected to begin sooner takes it ("the power of two choices"): nearly
as even as always asking the least loaded, without every gateway running to the same one between two reports. The
address where the conversation's prefix is likely cached is looked at too, and spared the prefill; while all its slots
are taken it gets nothing for that.

Places are bounded, and so is the line of those who wait for one. Nobody waits who is not expected to be served in time.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from gateway.targets.affinity import home_of
from gateway.targets.replica import Replica
from inference_protocol.errors import Overloaded, UpstreamUnreachable

_QUEUE_FULL = "rejected-queue-full"
_TOO_LATE = "rejected-deadline"
_EVICTED = "evicted-deadline"
_UNKNOWN_WAIT_MS = 100.0  # of each request ahead, where nothing has been learnt yet
_NEWEST = 0.1  # weight of the newest attempt's length in the running mean


class Lease:
    """An attempt's place at an address. It is given back once, by the one of three endings that comes first."""

    __slots__ = ("_entered", "_is_over", "_pool", "_taken_at", "replica")

    def __init__(self, pool: Pool, replica: Replica, taken_at: float) -> None:
        """Take a place that is free."""
        self.replica = replica
        self._pool = pool
        self._taken_at = taken_at
        self._entered = replica.breaker.enter()
        self._is_over = False
        replica.in_flight += 1

    def succeeded(self, now: float) -> None:
        """The address did what it should."""
        if not self._is_over:
            self.replica.breaker.succeeded(self._entered)
            self._end(now)

    def failed(self, now: float) -> None:
        """The address failed, by its own fault."""
        if not self._is_over:
            self.replica.breaker.failed(self._entered, now)
            self._end(now)

    def unjudged(self, now: float) -> None:
        """It ended without saying anything of the address: the caller left, or asked for something wrong."""
        if not self._is_over:
            self.replica.breaker.unjudged(self._entered)
            self._end(now)

    def _end(self, now: float) -> None:
        self._is_over = True
        self.replica.in_flight -= 1
        self._pool.left(now - self._taken_at)


class Pool:
    """The addresses of one target."""

    def __init__(
        self,
        name: str,
        replicas: Sequence[Replica],
        *,
        max_waiting: int,
        clock: Callable[[], float],
        draw: random.Random,
    ) -> None:
        """Hold the addresses.

        Args:
            name: The target's.
            replicas: Its addresses, at least one.
            max_waiting: Attempts that may wait for a place.
            clock: Monotonic seconds.
            draw: Draws the two addresses that are compared.
        """
        self._name = name
        self._replicas = tuple(replicas)
        self._max_waiting = max_waiting
        self._clock = clock
        self._draw = draw
        self._waiting: deque[asyncio.Future[Lease]] = deque()
        self._mean_s: float | None = None  # that an attempt holds its place

    def __iter__(self) -> Iterator[Replica]:
        """Yield the addresses in the settings' order."""
        return iter(self._replicas)

    def __len__(self) -> int:
        """How many addresses there are."""
        return len(self._replicas)

    @property
    def waiting(self) -> int:
        """Attempts that wait for a place."""
        return len(self._waiting)

    def can_be_asked(self, now: float, without: Collection[Replica] = ()) -> bool:
        """Whether some address may be asked, be it after a wait for a place; those in `without` do not count."""
        return any(replica.may_be_asked(now) and replica not in without for replica in self._replicas)

    def best(self) -> Replica:
        """The address that a prediction is made for: the least loaded one that may be asked."""
        if len(self._replicas) == 1:
            return self._replicas[0]
        now = self._clock()
        return min(self._replicas, key=lambda replica: (not replica.may_be_asked(now), replica.load))

    async def lease(
        self,
        *,
        without: Collection[Replica] = (),
        conversation: Callable[[], bytes] | None = None,
        prompt_tokens: int = 0,
        until: float | None = None,
    ) -> Lease:
        """Return a place at an address, once there is one.

        Args:
            without: Addresses that are not wanted, unless there are no others.
            conversation: Gives the key of the request's conversation; asked only where there is a choice.
            prompt_tokens: Of the request.
            until: Monotonic seconds after which a place is of no use.

        Raises:
            UpstreamUnreachable: No address may be asked now.
            Overloaded: The line is full, or moves too slowly.
        """
        now = self._clock()
        usable = [replica for replica in self._replicas if replica.may_be_asked(now)]
        if not usable:
            raise UpstreamUnreachable(f"No address of `{self._name}` can be asked now.")
        wanted = [replica for replica in usable if replica not in without] or usable
        free = [replica for replica in wanted if replica.has_place]
        if free and not self._waiting:
            replica = free[0] if len(free) == 1 else self._choose(free, conversation, prompt_tokens)
            return Lease(self, replica, now)
        return await self._wait(now, until)

    def review(self) -> None:
        """Hand out places that came free, or turn away those who wait for a target that nobody can ask any more."""
        if not self._waiting:
            return
        now = self._clock()
        while self._waiting:
            usable = [replica for replica in self._replicas if replica.may_be_asked(now)]
            free = [replica for replica in usable if replica.has_place]
            if usable and not free:
                return
            waiter = self._waiting.popleft()
            if waiter.done():
                continue
            if free:
                waiter.set_result(Lease(self, min(free, key=lambda replica: replica.load), now))
            else:
                waiter.set_exception(UpstreamUnreachable(f"No address of `{self._name}` can be asked any more."))

    def left(self, held_s: float) -> None:
        """Count one out; the next in line takes its place."""
        self._mean_s = held_s if self._mean_s is None else self._mean_s + _NEWEST * (held_s - self._mean_s)
        self.review()

    def wait_s(self) -> float:
        """Seconds that one more would wait in line, by what attempts took so far."""
        places = sum(replica.places for replica in self._replicas)
        return (len(self._waiting) + 1) * (self._mean_s or 0.0) / places

    async def _wait(self, now: float, until: float | None) -> Lease:
        expected_s = self.wait_s()
        if len(self._waiting) >= self._max_waiting:
            raise self._overloaded(f"All places at `{self._name}` are taken, and its line is full.", _QUEUE_FULL)
        if until is not None and now + expected_s > until:
            raise self._overloaded(f"A place at `{self._name}` would come too late.", _TOO_LATE)
        waiter: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(None if until is None else until - now):
                return await waiter
        except TimeoutError:
            self._give_back(waiter)
            raise self._overloaded(f"No place at `{self._name}` came free in time.", _EVICTED) from None
        except asyncio.CancelledError:
            self._give_back(waiter)
            raise

    def _give_back(self, waiter: asyncio.Future[Lease]) -> None:
        """A waiter left. If it was just handed a place, the next one gets that."""
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            waiter.result().unjudged(self._clock())
        elif waiter in self._waiting:
            self._waiting.remove(waiter)

    def _overloaded(self, message: str, reason: str) -> Overloaded:
        return Overloaded(message, retry_after_s=max(1.0, self.wait_s()), details={"reason": reason})

    def _choose(self, free: list[Replica], conversation: Callable[[], bytes] | None, prompt_tokens: int) -> Replica:
        candidates = self._draw.sample(free, 2)
        home: Replica | None = None
        if conversation is not None:
            address = home_of(conversation(), (replica.endpoint.text for replica in self._replicas))
            home = next((replica for replica in free if replica.endpoint.text == address), None)
            if home is not None and home not in candidates:
                candidates.append(home)
        return min(candidates, key=lambda replica: _wait_ms(replica, prompt_tokens, is_home=replica is home))


def _wait_ms(replica: Replica, prompt_tokens: int, *, is_home: bool) -> float:
    """Milliseconds until an address is expected to begin its answer; at home the prefill is spared."""
    state = replica.state
    if state is None or not state.prefill_tokens_per_s or not state.ms_per_token:
        return (replica.load - is_home) * _UNKNOWN_WAIT_MS
    unread = state.prefill_tokens_queued
    beyond_slots = max(0, replica.load + 1 - state.slots)
    if not (is_home and beyond_slots == 0):
        unread += prompt_tokens
    prefill_ms = 1000.0 * unread / state.prefill_tokens_per_s
    step_ms = min(state.ms_per_token.values())
    return prefill_ms + replica.load * step_ms + beyond_slots * _UNKNOWN_WAIT_MS

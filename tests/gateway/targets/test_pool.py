"""Which address takes an attempt, and who waits: even, bounded, and nothing leaks."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.egress.control import ControlDoor
from gateway.egress.door import Door
from gateway.egress.endpoint import Endpoint
from gateway.targets.pool import Lease, Pool
from gateway.targets.replica import Replica
from inference_protocol.errors import Overloaded, UpstreamUnreachable
from routing_policies.snapshot import Health
from tests.support.scripted_runtime import state
from tests.support.scripted_transport import ScriptedTransport, answers
from tests.support.virtual_time import in_virtual_time

Clock = Callable[[], float]


def pool_of(count: int, clock: Clock = lambda: 0.0, *, places: int = 100, max_waiting: int = 10, seed: int = 1) -> Pool:
    replicas = []
    for number in range(count):
        endpoint = Endpoint.parse(f"http://replica-{number}.invalid")
        transport = ScriptedTransport("t", [answers], [])
        replica = Replica(endpoint, Door("t", transport), ControlDoor(endpoint, transport), places=places)
        replica.answered()
        replicas.append(replica)
    return Pool("t", replicas, max_waiting=max_waiting, clock=clock, draw=random.Random(seed))


def shares(leases: list[Lease]) -> list[int]:
    return sorted(Counter(lease.replica.endpoint.text for lease in leases).values())


async def test_the_less_loaded_of_two_is_asked_so_that_load_stays_nearly_even() -> None:
    pool = pool_of(4)
    found = shares([await pool.lease() for _ in range(200)])
    assert len(found) == 4
    assert found[-1] - found[0] <= 4


async def test_what_an_address_reports_of_others_counts_as_load() -> None:
    pool = pool_of(2)
    busy, idle = pool
    busy.reported(state(running=4, waiting=20))
    idle.reported(state())
    assert {(await pool.lease()).replica for _ in range(10)} == {idle}


async def test_a_conversation_is_at_home_at_one_address_and_stays_there_when_others_come_and_go() -> None:
    pool = pool_of(5)
    for replica in pool:
        replica.reported(state())
    homes: dict[bytes, Replica] = {}
    for number in range(40):
        key = bytes([number]) * 16
        lease = await pool.lease(conversation=lambda key=key: key, prompt_tokens=1000)  # type: ignore[misc]  # a default binds it
        homes[key] = lease.replica
        lease.succeeded(0.0)
    assert len(set(homes.values())) == 5, "conversations spread over all"
    gone = next(iter(pool))
    gone.mark_unreachable()
    for key, home in homes.items():
        lease = await pool.lease(conversation=lambda key=key: key, prompt_tokens=1000)  # type: ignore[misc]  # a default binds it
        assert home is gone or lease.replica is home
        lease.succeeded(0.0)


async def test_home_is_a_bonus_and_no_reason_to_overload_it() -> None:
    pool = pool_of(3)
    for replica in pool:
        replica.reported(state(slots=2))
    leases = [await pool.lease(conversation=lambda: b"k" * 16, prompt_tokens=1000) for _ in range(30)]
    assert shares(leases)[-1] <= 12


async def test_addresses_that_failed_are_avoided_while_there_are_others() -> None:
    pool = pool_of(2)
    first, second = pool
    assert (await pool.lease(without=[first])).replica is second
    second.mark_unreachable()
    assert (await pool.lease(without=[first])).replica is first


async def test_nobody_may_be_asked_is_said_at_once() -> None:
    now = 0.0
    pool = pool_of(1, lambda: now)
    [only] = pool
    only.rest(5.0)
    assert only.standing(now)[0] is Health.RESTING
    with pytest.raises(UpstreamUnreachable):
        await pool.lease()
    now = 5.0
    await pool.lease()


def test_who_waits_is_served_in_turn_and_the_line_is_bounded() -> None:
    async def work(clock: Clock) -> None:
        pool = pool_of(1, clock, places=1, max_waiting=2)
        held = await pool.lease()
        order: list[int] = []

        async def one(number: int) -> None:
            lease = await pool.lease()
            order.append(number)
            await asyncio.sleep(1)
            lease.succeeded(clock())

        waiting = [asyncio.create_task(one(number)) for number in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded) as refused:
            await pool.lease()
        assert refused.value.details == {"reason": "rejected-queue-full"}
        await asyncio.sleep(3)
        held.succeeded(clock())
        await asyncio.gather(*waiting)
        assert order == [0, 1]
        assert [replica.in_flight for replica in pool] == [0]
        assert pool.waiting == 0

    in_virtual_time(work)


def test_nobody_waits_who_would_be_late_and_who_became_late_is_sent_away() -> None:
    async def work(clock: Clock) -> None:
        pool = pool_of(1, clock, places=1)
        lease = await pool.lease()
        await asyncio.sleep(10)
        lease.succeeded(clock())  # ten seconds an attempt, as far as is known
        held = await pool.lease()
        with pytest.raises(Overloaded) as refused:
            await pool.lease(until=clock() + 5)
        assert refused.value.details == {"reason": "rejected-deadline"}
        assert refused.value.retry_after_s == 10.0
        with pytest.raises(Overloaded) as evicted:
            await pool.lease(until=clock() + 15)
        assert evicted.value.details == {"reason": "evicted-deadline"}
        held.succeeded(clock())
        assert pool.waiting == 0

    in_virtual_time(work)


@pytest.mark.parametrize("leaves", ["hangs up", "is late"])
def test_a_place_that_was_handed_to_one_who_leaves_in_that_very_moment_goes_to_the_next(leaves: str) -> None:
    async def work(clock: Clock) -> None:
        pool = pool_of(1, clock, places=1)
        held = await pool.lease()
        first = asyncio.create_task(pool.lease(until=clock() + 5 if leaves == "is late" else None))
        second = asyncio.create_task(pool.lease())
        await asyncio.sleep(0 if leaves == "hangs up" else 5)
        held.succeeded(clock())
        first.cancel()
        lease = await second
        await asyncio.gather(first, return_exceptions=True)
        assert not pool.waiting
        assert [replica.in_flight for replica in pool] == [1]
        lease.succeeded(clock())
        assert [replica.in_flight for replica in pool] == [0]

    in_virtual_time(work)


def test_those_who_wait_for_what_is_gone_are_told() -> None:
    async def work(clock: Clock) -> None:
        pool = pool_of(1, clock, places=1)
        [only] = pool
        held = await pool.lease()
        waiting = asyncio.create_task(pool.lease())
        await asyncio.sleep(1)
        only.mark_unreachable()
        held.failed(clock())
        with pytest.raises(UpstreamUnreachable):
            await waiting

    in_virtual_time(work)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 8), st.sampled_from(["succeeded", "failed", "unjudged", "cancel"])),
        min_size=1,
        max_size=25,
    )
)
def test_places_return_to_zero_however_attempts_come_wait_and_go(plan: list[tuple[int, int, str]]) -> None:
    async def work(clock: Clock) -> None:
        pool = pool_of(2, clock, places=2, max_waiting=5)

        async def one(comes_s: int, stays_s: int, ends: str) -> None:
            await asyncio.sleep(comes_s)
            lease = await pool.lease(until=clock() + 6)
            assert all(replica.in_flight <= 2 for replica in pool)
            try:
                await asyncio.sleep(stays_s)
            except asyncio.CancelledError:
                lease.unjudged(clock())
                raise
            getattr(lease, "unjudged" if ends == "cancel" else ends)(clock())

        tasks = [asyncio.create_task(one(*each)) for each in plan]
        for task, (comes_s, stays_s, ends) in zip(tasks, plan, strict=True):
            if ends == "cancel":
                asyncio.get_running_loop().call_later(comes_s + stays_s / 2, task.cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [replica.in_flight for replica in pool] == [0, 0]
        assert pool.waiting == 0

    in_virtual_time(work)

from __future__ import annotations

import asyncio

import pytest

from inference_protocol.errors import Draining, Overloaded
from serving.in_flight import InFlight


def test_one_more_than_the_limit_is_refused_until_somebody_leaves() -> None:
    requests = InFlight(limit=1)
    with requests.place():
        with pytest.raises(Overloaded), requests.place():
            pass
        assert requests.count == 1
    with requests.place():
        assert requests.count == 1


def test_a_request_that_fails_gives_its_place_back() -> None:
    requests = InFlight()
    with pytest.raises(ZeroDivisionError), requests.place():
        raise ZeroDivisionError
    assert requests.count == 0


async def test_a_drain_lets_nobody_in_and_returns_when_the_last_has_left() -> None:
    requests = InFlight()
    with requests.place():
        draining = asyncio.create_task(requests.drain(60))
        await asyncio.sleep(0)  # the drain begins
        with pytest.raises(Draining), requests.place():
            pass
        assert not draining.done()
    assert await asyncio.wait_for(draining, 5)


async def test_a_drain_that_takes_too_long_says_so() -> None:
    requests = InFlight()
    with requests.place():
        assert not await requests.drain(0.01)


async def test_a_drain_of_nobody_is_over_at_once() -> None:
    assert await asyncio.wait_for(InFlight().drain(60), 5)

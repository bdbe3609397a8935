"""How many requests are worked on at once, and the end of taking any."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.conftest import House, HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, says
from tests.support.waiting import until

BODY = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}


class Held:
    """Answers once it is released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def __call__(self, request: Received) -> None:
        await self.released.wait()
        await says("at last")(request)


async def inside(h: House) -> asyncio.Task[int]:
    """Send a request, and return once a target works on it."""

    async def ask() -> int:
        return (await h.gateway.chat()).status_code

    asked = asyncio.create_task(ask())
    await until(lambda: bool(h.edge.posts))
    return asked


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/route/explain"])
async def test_one_request_more_than_there_are_places_is_told_to_come_back(house: HouseFactory, path: str) -> None:
    held = Held()
    async with house(edge=ScriptedRuntime(held), limits={"concurrent_requests": 1}) as h:
        asked = await inside(h)
        refused = await h.gateway.client.post(path, json=BODY)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "overloaded"
        assert refused.json()["error"]["details"] == {"reason": "rejected-saturated"}
        assert int(refused.headers["retry-after"]) >= 1
        held.released.set()
        assert await asked == 200
        assert (await h.gateway.client.post(path, json=BODY)).status_code == 200, "the place is free again"
        assert len(h.cloud.posts) == 0, "what is refused here goes nowhere"


async def test_a_wrong_request_gives_its_place_back(house: HouseFactory) -> None:
    async with house(limits={"concurrent_requests": 1}) as h:
        for _ in range(3):
            assert (await h.gateway.client.post("/v1/chat/completions", content=b"{")).status_code == 400
        assert (await h.gateway.chat()).status_code == 200


async def test_while_draining_nobody_is_let_in_and_those_inside_are_finished(house: HouseFactory) -> None:
    held = Held()
    async with house(edge=ScriptedRuntime(held)) as h:
        asked = await inside(h)
        draining = asyncio.create_task(h.gateway.app.admission.drain(10))
        await until(lambda: h.gateway.app.admission.draining)
        refused = await h.gateway.chat()
        ready = await h.gateway.client.get("/readyz")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert refused.json()["error"]["details"] == {"reason": "rejected-shutting-down"}
        assert (ready.status_code, ready.json()["status"]) == (503, "draining")
        assert (await h.gateway.client.get("/livez")).status_code == 200
        assert not draining.done()
        held.released.set()
        assert await asked == 200
        assert await asyncio.wait_for(draining, 5)
        assert [each["outcome"] for each in await h.until_settled(2)] == ["unavailable", "ok"]


async def test_bodies_that_together_take_too_much_memory_are_told_to_come_back(house: HouseFactory) -> None:
    held = Held()
    limits = {"body_bytes_in_flight": 3000}
    async with house(edge=ScriptedRuntime(held), limits=limits) as h:
        asked = asyncio.create_task(h.gateway.chat("x" * 2000))
        await until(lambda: bool(h.edge.posts))
        refused = await h.gateway.chat("x" * 2000)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        assert refused.headers["x-tidegate-reason"] == "rejected-memory"
        assert int(refused.headers["retry-after"]) >= 1
        held.released.set()
        assert (await asked).status_code == 200
        assert h.gateway.app.admission.bytes == 0
        assert (await h.gateway.chat("x" * 2000)).status_code == 200

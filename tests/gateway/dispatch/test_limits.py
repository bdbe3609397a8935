"""What one target may do to the gateway and its callers is bounded: silence, size, frames without end."""

from __future__ import annotations

import asyncio
import json

from tests.gateway.conftest import HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, event, says

RESTRICTED = {"x-data-class": "restricted"}  # only the edge may answer


async def test_a_target_that_falls_silent_in_its_answer_is_given_up(house: HouseFactory) -> None:
    async def falls_silent(request: Received) -> None:
        await request.head()
        await request.chunk(event(content="Once upon"))
        await asyncio.Event().wait()

    async with house(edge=ScriptedRuntime(falls_silent), timeouts={"idle_s": 0.1}) as h:
        response = await h.gateway.chat(stream=True)
        last = response.text.rstrip("\n").split("\n\n")[-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "upstream_cut"
        async with asyncio.timeout(5):
            await h.edge.posts[0].gone.wait()
        assert [each["outcome"] for each in await h.until_settled(1)] == ["upstream_cut"]


async def test_pings_without_end_are_no_answer(house: HouseFactory) -> None:
    async def pings(request: Received) -> None:
        await request.head()
        while True:
            await request.chunk(b": ping\n\n" * 50)
            await asyncio.sleep(0)

    async with house(edge=ScriptedRuntime(pings), cloud=ScriptedRuntime(says("fine"))) as h:
        alone = await h.gateway.chat(stream=True, headers=RESTRICTED)
        assert (alone.status_code, alone.json()["error"]["code"]) == (502, "upstream_protocol")
        replaced = await h.gateway.chat(stream=True)
        assert replaced.headers["x-tidegate-target"] == "cloud"


async def test_an_answer_that_passes_the_limit_is_none(house: HouseFactory) -> None:
    async def says_too_much(request: Received) -> None:
        await request.json_answer(200, {"choices": [{"message": {"content": "x" * 2000}, "finish_reason": "stop"}]})

    limits = {"answer_bytes": 1000}
    async with house(edge=ScriptedRuntime(says_too_much), cloud=ScriptedRuntime(says("fine")), limits=limits) as h:
        alone = await h.gateway.chat(headers=RESTRICTED)
        assert (alone.status_code, alone.json()["error"]["code"]) == (502, "upstream_protocol")
        assert "1000 bytes" in alone.json()["error"]["message"]
        replaced = await h.gateway.chat()
        assert replaced.json()["choices"][0]["message"]["content"] == "fine"

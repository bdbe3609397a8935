"""Callers who hang up, or take nothing of what they asked for: no target goes on working for them."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.gateway.conftest import HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, event
from tests.support.waiting import until


@pytest.mark.parametrize("moment", ["before the head", "before content", "mid-stream", "not streamed"])
async def test_a_caller_that_hangs_up_stops_the_work_upstream_and_is_recorded_as_gone(
    house: HouseFactory, moment: str
) -> None:
    reached = asyncio.Event()

    async def hangs(request: Received) -> None:
        if moment in ("before content", "mid-stream"):
            await request.head()
            await request.chunk(event(role="assistant"))
        if moment == "mid-stream":
            await request.chunk(event(content="a"))
        reached.set()
        await asyncio.Event().wait()

    async with house(edge=ScriptedRuntime(hangs)) as h:
        call = asyncio.create_task(h.gateway.chat(stream=moment != "not streamed"))
        async with asyncio.timeout(5):
            await reached.wait()
            call.cancel()
            await h.edge.posts[0].gone.wait()
        await until(lambda: not h.gateway.app.admission.count and not h.gateway.app.targets["edge"].in_flight)
        [outcome] = await h.until_settled(1)
        assert (outcome["outcome"], outcome["error"]) == ("client_closed", None)
        assert [attempt["outcome"] for attempt in outcome["attempts"]] == ["client_closed"]


async def test_a_caller_that_takes_nothing_does_not_hold_the_slot(house: HouseFactory) -> None:
    chunk = event(content="x" * 60_000)

    async def pours(request: Received) -> None:
        await request.head()
        while True:
            await request.chunk(chunk)

    async with house(edge=ScriptedRuntime(pours), timeouts={"reader_s": 0.3}) as h:
        port = int(h.gateway.url.rsplit(":", 1)[1])
        body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "x"}], "stream": True}).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        await until(lambda: bool(h.edge.posts))
        async with asyncio.timeout(10):
            await h.edge.posts[0].gone.wait()
        await until(lambda: not h.gateway.app.targets["edge"].in_flight)
        writer.close()

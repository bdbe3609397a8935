"""`GET /status`: each request and each attempt is counted once, in the words of spans and records."""

from __future__ import annotations

from typing import Any

import httpx

from tests.gateway.conftest import HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, says


async def test_what_became_of_requests_and_attempts_is_counted_once(house: HouseFactory) -> None:
    async def broken(request: Received) -> None:
        await request.json_answer(500, {"error": {"message": "broken"}})

    async with house(edge=ScriptedRuntime(broken), cloud=ScriptedRuntime(says("fine"))) as h:
        for headers in ({}, {}, {"x-data-class": "restricted"}, {"x-latency-budget-ms": "soon"}):
            await h.gateway.chat(headers=headers)
        await h.until_settled(4)
        found: dict[str, Any] = await status_of(h.gateway.app)
        assert found["outcomes"] == {
            "requests": {"invalid_request": 1, "ok": 2, "upstream_error": 1},
            "attempts": {"cloud": {"ok": 2}, "edge": {"upstream_error": 3}},
        }
        assert found["connectivity"]["state"] == "online"
        assert found["targets"]["edge"]["endpoints"][0]["breaker"] == "closed"


async def status_of(app: Any) -> dict[str, Any]:
    """Ask the admin listener's application, as an operator on this machine does."""
    transport = httpx.ASGITransport(app.admin)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer: dict[str, Any] = (await client.get("/status")).json()
        return answer

"""Requests that wait take their tokens at their turn, like every other one, and wait on where there are none."""

from __future__ import annotations

from typing import Any

import httpx

from routing_policies.snapshot import Health
from tests.gateway.conftest import House, HouseFactory
from tests.gateway.test_quota import bearer, key
from tests.support.waiting import until


async def put_off(h: House, cap: int) -> str:
    """Put a request off that may take so many tokens, and return its id."""
    headers = {**bearer("some"), "x-data-class": "restricted"}
    answer = await h.gateway.chat(deferrable=True, max_tokens=cap, headers=headers)
    assert answer.status_code == 202
    return str(answer.json()["id"])


async def status(h: House, request_id: str) -> str:
    found: httpx.Response = await h.gateway.client.get(f"/v1/requests/{request_id}", headers=bearer("some"))
    return str(found.json()["status"])


async def test_a_request_whose_turn_finds_no_tokens_waits_on_and_is_not_failed(house: HouseFactory) -> None:
    some: dict[str, Any] = key("some", may=["defer"], tokens_per_day=1000)
    async with house(auth={"keys": [some]}, outbox={"flush_per_s": 50.0}) as h:
        await h.edge.stop()
        await h.gateway.until_health(edge=Health.DOWN)
        small, large = await put_off(h, 100), await put_off(h, 985)
        await h.edge.start()

        async def first_is_done() -> bool:
            return await status(h, small) == "done"

        await until(first_is_done)
        # The other one has had its turn, and found too little.
        await until(lambda: "quota_exceeded" in {each["outcome"] for each in h.outcomes()})
        assert await status(h, large) == "queued"
        assert [post.json["max_tokens"] for post in h.edge.posts] == [100]

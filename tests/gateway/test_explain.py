"""`POST /v1/route/explain`: the decision for this very request, and nothing sent."""

from __future__ import annotations

from typing import Any

import httpx

from tests.gateway.conftest import House, HouseFactory
from tests.support.scripted_runtime import ScriptedRuntime, state


async def explained(h: House, text: str, headers: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    body = {"model": "auto", "messages": [{"role": "user", "content": text}], **fields}
    response: httpx.Response = await h.gateway.client.post("/v1/route/explain", json=body, headers=headers or {})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_a_long_prompt_is_explained_as_the_clouds_with_its_size_score(house: HouseFactory) -> None:
    cloud = ScriptedRuntime(report=state(window=8192))
    async with house(cloud=cloud) as h:
        short = await explained(h, "What is the capital of France?", max_tokens=50)
        long = await explained(h, "tide " * 6000, max_tokens=50)
        assert (short["target"], long["target"]) == ("edge", "cloud")
        assert short["scores"]["size"] < 0.1
        assert long["scores"]["size"] == 1.0
        assert long["targets"]["edge"]["excluded"]["kind"] == "window"
        assert "2048" in long["targets"]["edge"]["excluded"]["detail"]
        assert not h.edge.posts
        assert not h.cloud.posts


async def test_findings_are_counted_by_kind_and_never_quoted(house: HouseFactory) -> None:
    async with house() as h:
        found = await explained(h, "My card is 4111 1111 1111 1111, thanks")
        assert found["label"]["class"] == "restricted"
        assert sum(found["label"]["counts"].values()) == 1
        assert found["order"] == ["edge"]
        assert found["targets"]["cloud"]["excluded"]["kind"] == "clearance"
        assert "4111 1111" not in str(found)


async def test_what_is_explained_is_what_is_done(house: HouseFactory) -> None:
    async with house() as h:
        for text, headers in (("hi", {}), ("word " * 800, {}), ("hi", {"x-data-class": "confidential"})):
            found = await explained(h, text, headers)
            done = await h.gateway.chat(text, headers=headers)
            assert done.headers["x-tidegate-target"] == found["target"]
            assert done.headers["x-tidegate-reason"] == found["reason"]


async def test_a_wrong_request_is_refused_as_it_would_be_when_sent(house: HouseFactory) -> None:
    async with house() as h:
        response = await h.gateway.client.post("/v1/route/explain", json={"model": "auto", "messages": []})
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "messages"

"""A target that may see no personal data is sent tokens, and its answer comes back with the values."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from routing_policies.policy.loader import load_text
from tests.gateway.conftest import House, HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, event, says, state

EMAIL, CARD = "jane.doe@corp.com", "4111 1111 1111 1111"
POLICY = """
apiVersion: tidegate/v1
name: replacing
defaults: {class: public}
targets:
  cloud: {kind: cloud, clearance: internal, pseudonymize: [pii], quality: 1.0}
  edge:  {kind: edge, clearance: restricted, quality: 0.1}
weights: {quality: 1.0}
"""
TOKEN = re.compile(r"EMAIL_[A-Z2-7]{8}")


async def echoes(request: Received) -> None:
    """Say back what the last message holds, a character at a time."""
    said = request.json["messages"][-1]["content"]
    if not request.json.get("stream"):
        await says(said)(request)
        return
    await request.head()
    for char in said:
        await request.chunk(event(content=char))
    await request.chunk(event(finish_reason="stop"))
    await request.chunk(b"data: [DONE]\n\n")
    await request.end()


@pytest.fixture
def replacing(house: HouseFactory) -> Any:
    @asynccontextmanager
    async def build(**runtimes: ScriptedRuntime) -> AsyncIterator[House]:
        runtimes.setdefault("cloud", ScriptedRuntime(echoes, state(window=8192)))
        async with house(loaded=load_text(POLICY, "replacing.yaml"), **runtimes) as h:
            yield h

    return build


def said(text: str) -> str:
    chunks = [json.loads(f.removeprefix("data: ")) for f in text.split("\n\n") if f.startswith("data: {")]
    return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])


@pytest.mark.parametrize("stream", [False, True])
async def test_values_are_tokens_outside_and_values_again_for_the_caller(replacing: Any, stream: bool) -> None:
    async with replacing() as h:
        response = await h.gateway.chat(f"Write to {EMAIL} today", stream=stream, max_tokens=8)
        assert response.status_code == 200, response.text
        assert response.headers["x-tidegate-target"] == "cloud"
        assert response.headers["x-tidegate-label"] == "confidential; email"
        sent = h.cloud.posts[0]
        assert EMAIL.encode() not in sent.body
        assert TOKEN.search(sent.json["messages"][0]["content"])
        shown = said(response.text) if stream else response.json()["choices"][0]["message"]["content"]
        assert shown == f"Write to {EMAIL} today"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_token_that_the_caller_typed_comes_back_as_it_was_typed(replacing: Any, stream: bool) -> None:
    async with replacing() as h:
        await h.gateway.chat(f"Write to {EMAIL}", max_tokens=8)
        typed = TOKEN.findall(h.cloud.posts[0].json["messages"][0]["content"])[0]
        # The same first turn, so that the same token would be made again.
        messages = [
            {"role": "user", "content": f"Write to {EMAIL}"},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": f"Is {typed} or {typed.lower()} the same as {EMAIL}?"},
        ]
        response = await h.gateway.chat(messages=messages, stream=stream, max_tokens=8)
        last = h.cloud.posts[1]
        assert EMAIL.encode() not in last.body
        assert typed not in last.json["messages"][0]["content"], "the value has another token now"
        shown = said(response.text) if stream else response.json()["choices"][0]["message"]["content"]
        assert shown == messages[-1]["content"]


async def test_what_may_not_be_replaced_stays(replacing: Any) -> None:
    async with replacing() as h:
        response = await h.gateway.chat(f"{EMAIL} pays with {CARD}", max_tokens=8)
        assert response.headers["x-tidegate-target"] == "edge"
        assert not h.cloud.posts


async def test_a_label_that_its_caller_gave_is_not_lowered_by_replacing(replacing: Any) -> None:
    async with replacing() as h:
        response = await h.gateway.chat(EMAIL, headers={"x-data-class": "confidential"}, max_tokens=8)
        assert response.headers["x-tidegate-target"] == "edge"
        assert not h.cloud.posts


async def test_a_value_where_no_token_can_stand_keeps_the_request_here(replacing: Any) -> None:
    async with replacing() as h:
        response = await h.gateway.chat("hello", user=EMAIL, max_tokens=8)
        assert response.headers["x-tidegate-target"] == "edge"
        assert not h.cloud.posts


async def test_a_target_that_is_fallen_back_to_gets_the_values_where_it_may_see_them(replacing: Any) -> None:
    async def fails(request: Received) -> None:
        await request.json_answer(500, {"error": {"message": "broken"}})

    async with replacing(cloud=ScriptedRuntime(fails, state(window=8192))) as h:
        response = await h.gateway.chat(EMAIL, max_tokens=8)
        assert response.headers["x-tidegate-target"] == "edge"
        assert EMAIL.encode() not in h.cloud.posts[0].body
        assert EMAIL in h.edge.posts[0].json["messages"][0]["content"]


async def test_two_callers_with_the_same_words_never_see_each_others_values(replacing: Any) -> None:
    async with replacing() as h:
        await h.gateway.chat(f"I am {EMAIL}", max_tokens=8)
        (token,) = TOKEN.findall(h.cloud.posts[0].json["messages"][0]["content"])
        response = await h.gateway.chat(f"What is {token}?", max_tokens=8)
        assert response.json()["choices"][0]["message"]["content"] == f"What is {token}?"


async def test_explain_says_which_targets_would_be_sent_tokens(replacing: Any) -> None:
    async with replacing() as h:
        body = {"model": "auto", "messages": [{"role": "user", "content": EMAIL}], "max_tokens": 8}
        found = (await h.gateway.client.post("/v1/route/explain", json=body)).json()
        assert found["targets"]["cloud"]["transform"] == "pseudonymize"
        assert found["targets"]["edge"]["transform"] == "none"
        assert EMAIL not in json.dumps(found)


async def test_the_record_says_that_tokens_were_sent_and_holds_neither_token_nor_value(
    replacing: Any, tmp_path: Path
) -> None:
    async with replacing() as h:
        await h.gateway.chat(f"Write to {EMAIL} today", max_tokens=8)
    written = (tmp_path / "records" / "requests.jsonl").read_text()
    assert '{"target":"cloud","transform":"pseudonymize"}' in written
    assert EMAIL not in written
    assert TOKEN.search(written) is None

"""Completions go the way of chats: scanned, labelled, decided, recorded, and their pseudonyms put back."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from routing_policies.policy.loader import load_text
from tests.gateway.conftest import House, HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, state

EMAIL = "jane.doe@corp.com"
POLICY = """
apiVersion: tidegate/v1
name: completing
defaults: {class: public}
targets:
  cloud: {kind: cloud, clearance: internal, pseudonymize: [pii], quality: 1.0}
  edge:  {kind: edge, clearance: restricted, quality: 0.1}
weights: {quality: 1.0}
"""
STRICT = POLICY.replace(", pseudonymize: [pii]", "")


async def echoes(request: Received) -> None:
    """Continue a prompt with itself, a few characters at a time where that is asked for."""
    prompt = request.json["prompt"]
    said = prompt if isinstance(prompt, str) else "tokens"
    envelope = {"id": "c", "object": "text_completion", "model": request.json["model"]}
    if not request.json.get("stream"):
        choice = {"index": 0, "text": said, "logprobs": None, "finish_reason": "stop"}
        await request.json_answer(200, {**envelope, "choices": [choice]})
        return
    await request.head()
    for at in range(0, len(said), 3):
        choice = {"index": 0, "text": said[at : at + 3], "finish_reason": None}
        await request.chunk(b"data: " + json.dumps({**envelope, "choices": [choice]}).encode() + b"\n\n")
    choice = {"index": 0, "text": "", "finish_reason": "stop"}
    await request.chunk(b"data: " + json.dumps({**envelope, "choices": [choice]}).encode() + b"\n\ndata: [DONE]\n\n")
    await request.end()


async def complete(h: House, **fields: Any) -> httpx.Response:
    return await h.gateway.client.post("/v1/completions", json={"model": "auto", **fields})


def runtimes() -> dict[str, ScriptedRuntime]:
    return {"edge": ScriptedRuntime(echoes), "cloud": ScriptedRuntime(echoes, state(window=8192))}


async def test_a_completion_is_answered_where_the_policy_says_and_recorded_as_one(house: HouseFactory) -> None:
    async with house(loaded=load_text(POLICY, "p.yaml"), **runtimes()) as h:
        answer = await complete(h, prompt="The sea is", max_tokens=4)
        [outcome] = await h.until_settled(1)
    assert answer.json()["choices"][0]["text"] == "The sea is"
    assert answer.headers["x-tidegate-target"] == "cloud"
    [asked] = h.cloud.posts
    assert asked.path == "/v1/completions"
    assert asked.json["prompt"] == "The sea is"
    assert len(asked.json["cache_salt"]) == 32
    assert outcome["outcome"] == "ok"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_value_in_a_prompt_leaves_as_a_token_and_comes_back_as_itself(
    house: HouseFactory, stream: bool
) -> None:
    async with house(loaded=load_text(POLICY, "p.yaml"), **runtimes()) as h:
        answer = await complete(h, prompt=f"Write to {EMAIL} today", stream=stream)
        [asked] = h.cloud.posts
    assert EMAIL not in asked.body.decode()
    assert re.search(r"EMAIL_[A-Z2-7]{8}", asked.json["prompt"])
    if stream:
        frames = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line.startswith("data: {")]
        text = "".join(choice["text"] for frame in frames for choice in frame["choices"])
        assert answer.text.endswith("data: [DONE]\n\n")
    else:
        text = answer.json()["choices"][0]["text"]
    assert text == f"Write to {EMAIL} today"


async def test_another_prompt_has_other_tokens_for_the_same_value(house: HouseFactory) -> None:
    async with house(loaded=load_text(POLICY, "p.yaml"), **runtimes()) as h:
        for prompt in (f"To {EMAIL}", f"Dear {EMAIL}"):
            await complete(h, prompt=prompt)
        tokens = {re.findall(r"EMAIL_[A-Z2-7]{8}", asked.json["prompt"])[0] for asked in h.cloud.posts}
    assert len(tokens) == 2


@pytest.mark.parametrize("prompt", [[464, 5417], [[464, 5417], [318]], ["fine", [464]]])
async def test_token_ids_cannot_be_inspected_and_stay_on_this_machine(house: HouseFactory, prompt: Any) -> None:
    async with house(loaded=load_text(STRICT, "p.yaml"), **runtimes()) as h:
        answer = await complete(h, prompt=prompt)
    assert answer.status_code == 200
    assert answer.headers["x-tidegate-target"] == "edge"
    assert answer.headers["x-tidegate-label"].startswith("confidential")
    assert h.cloud.posts == []


async def test_personal_data_in_any_of_several_prompts_keeps_them_all_here(house: HouseFactory) -> None:
    async with house(loaded=load_text(STRICT, "p.yaml"), **runtimes()) as h:
        answer = await complete(h, prompt=["harmless", f"mail {EMAIL}"])
    assert answer.headers["x-tidegate-target"] == "edge"
    assert h.cloud.posts == []


@pytest.mark.parametrize(
    ("fields", "param"), [({"suffix": "x"}, "suffix"), ({"best_of": 3}, "best_of"), ({"n": 0}, "n")]
)
async def test_what_is_not_done_is_refused_before_anything_is_sent(
    house: HouseFactory, fields: dict[str, Any], param: str
) -> None:
    async with house(**runtimes()) as h:
        answer = await complete(h, prompt="x", **fields)
        assert h.edge.posts == h.cloud.posts == []
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(
    "fields",
    [{"response_format": {"type": "json_object"}}, {"structured_outputs": {"regex": "a"}}, {"guided_regex": "a"}],
)
async def test_who_asks_for_a_form_never_gets_prose_from_a_target_that_knows_none(
    house: HouseFactory, fields: dict[str, Any]
) -> None:
    async with house(**runtimes()) as h:
        answer = await complete(h, prompt="x", **fields)
        assert h.edge.posts == h.cloud.posts == []
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "capability_unavailable"

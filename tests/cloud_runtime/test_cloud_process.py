"""`python -m cloud_runtime` as a process, on the default model, over its port."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

pytestmark = pytest.mark.models

LONG = {"messages": [{"role": "user", "content": "Write a long story about the sea."}], "temperature": 0}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "smollm2", "stream": True, "max_tokens": 500, **LONG, **fields}


@pytest.fixture
async def cloud(cloud_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=cloud_url, timeout=60) as client:
        yield client


async def until_load(cloud: httpx.AsyncClient, running: int, waiting: int) -> None:
    """Wait until that many run and wait."""
    async with asyncio.timeout(60):
        while True:
            state = (await cloud.get("/internal/state")).json()
            if (state["running"], state["waiting"]) == (running, waiting):
                return
            await asyncio.sleep(0.02)


async def test_the_openai_client_streams_the_capital_of_france(cloud_url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{cloud_url}/v1", api_key="none", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": "What is the capital of France?"}],
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert "".join(pieces) == "The capital of France is Paris."
    assert len(pieces) > 3
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == 37
    assert (chunks[-1].model_extra or {})["timings"]["decode_ms"] > 0


async def test_a_client_that_hangs_up_stops_the_work(cloud: httpx.AsyncClient) -> None:
    async with cloud.stream("POST", "/v1/chat/completions", json=body(max_tokens=8000)) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                break
        await until_load(cloud, 1, 0)
    await until_load(cloud, 0, 0)


async def test_the_queue_is_bounded_and_empties_when_its_clients_leave(cloud: httpx.AsyncClient) -> None:
    async with AsyncExitStack() as clients:

        async def hold() -> None:
            client = await clients.enter_async_context(httpx.AsyncClient(base_url=cloud.base_url, timeout=60))
            async with client.stream("POST", "/v1/chat/completions", json=body(max_tokens=8000)) as answer:
                await answer.aread()

        holders = [asyncio.create_task(hold()) for _ in range(17)]
        await until_load(cloud, 1, 16)
        refused = await cloud.post("/v1/chat/completions", json=body())
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "overloaded"
        assert int(refused.headers["retry-after"]) >= 1
        for holder in holders:
            holder.cancel()
        await asyncio.wait(holders)
    await until_load(cloud, 0, 0)
    answer = await cloud.post("/v1/chat/completions", json=body(max_tokens=2, stream=False))
    assert answer.json()["usage"]["completion_tokens"] == 2


async def test_a_seed_repeats_an_answer(cloud: httpx.AsyncClient) -> None:
    async def ask(seed: int) -> str:
        asked = body(stream=False, temperature=1, seed=seed, max_tokens=8)
        answer = await cloud.post("/v1/chat/completions", json=asked)
        return str(answer.json()["choices"][0]["message"]["content"])

    assert await ask(11) == await ask(11)
    assert await ask(11) != await ask(12)


async def test_its_state_names_the_model_and_the_device(cloud: httpx.AsyncClient) -> None:
    state = (await cloud.get("/internal/state")).json()
    assert state["provider"].startswith("torch:")
    assert (state["slots"], state["waiting_limit"]) == (1, 16)
    model = state["models"][0]
    assert (model["id"], model["window"]) == ("smollm2", 8192)
    assert len(model["tokenizer_digest"]) == 64


def test_a_signal_while_the_model_loads_ends_the_process(cloud_model: Path) -> None:
    command = [sys.executable, "-m", "cloud_runtime", "--model-dir", str(cloud_model), "--model-name", "m"]
    with subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "http://127.0.0.1:" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_it_keeps_to_forms_calls_tools_and_tells_log_probabilities_as_the_edge_does(cloud_url: str) -> None:
    place = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    tool = {"type": "function", "function": {"name": "visit", "parameters": place}}
    asked: dict[str, Any] = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "temperature": 0,
        "max_tokens": 32,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "place", "schema": place}}
    with httpx.Client(base_url=cloud_url, timeout=60) as client:
        formed = client.post("/v1/chat/completions", json={**asked, "response_format": wanted}).json()["choices"][0]
        called = client.post(
            "/v1/chat/completions",
            json={**asked, "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False},
        ).json()["choices"][0]
        two = client.post(
            "/v1/chat/completions", json={**asked, "n": 2, "logprobs": True, "top_logprobs": 2, "max_tokens": 3}
        ).json()
        prompt = {"model": "smollm2", "prompt": "The sea is blue", "echo": True, "logprobs": 1, "max_tokens": 0}
        echoed = client.post("/v1/completions", json=prompt).json()["choices"][0]
    assert json.loads(formed["message"]["content"]).keys() == {"city"}
    assert formed["finish_reason"] == "stop"
    [call] = called["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"])["city"] in ("Paris", "Rome")
    assert called["finish_reason"] == "tool_calls"
    assert two["choices"][0]["message"] == two["choices"][1]["message"]
    told = two["choices"][0]["logprobs"]["content"]
    assert all(each["logprob"] == each["top_logprobs"][0]["logprob"] <= 0 for each in told)
    assert len(told) == 3
    assert echoed["text"] == "The sea is blue"
    assert echoed["finish_reason"] == "length"
    assert echoed["logprobs"]["token_logprobs"][0] is None
    assert all(value < 0 for value in echoed["logprobs"]["token_logprobs"][1:])

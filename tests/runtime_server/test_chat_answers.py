from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest

from inference_protocol.sse import SseDecoder
from inference_protocol.timings import Timings
from runtime_server.engine import FinishReason, TokenEvent
from tests.runtime_server.conftest import RuntimeFactory
from tests.runtime_server.scripted_engine import MODEL, ScriptedGeneration, says


def chunks_of(response: httpx.Response) -> list[Any]:
    frames = SseDecoder().feed(response.content)
    assert frames[-1].is_done
    return [json.loads(frame.data or b"") for frame in frames[:-1]]


def text_of(chunks: list[Any]) -> str:
    return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])


def with_timings(generation: ScriptedGeneration) -> None:
    generation.timings_at_end = Timings(queue_ms=1.5, prefill_ms=20.25, decode_ms=100.0)
    generation.cached_tokens = 3
    generation.say("hello")
    generation.end()


async def test_a_whole_answer_carries_text_usage_timings_and_cached_tokens(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = with_timings
        response = await runtime.ask(headers={"x-request-id": "r-1"})
        answer = response.json()
        generated = len(runtime.engine.encode("hello"))
        prompt = len(runtime.engine.generations[0].job.prompt)
    assert response.status_code == 200
    assert response.headers["x-request-id"] == "r-1"
    assert answer["id"] == "chatcmpl-r-1"
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "hello"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    assert answer["timings"] == {"queue_ms": 1.5, "prefill_ms": 20.25, "decode_ms": 100.0}


async def test_a_stream_gives_role_text_finish_usage_and_done_in_order(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = with_timings
        response = await runtime.ask(stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    chunks = chunks_of(response)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert text_of(chunks) == "hello"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}
    assert chunks[-1]["timings"] == {"queue_ms": 1.5, "prefill_ms": 20.25, "decode_ms": 100.0}
    assert {(chunk["id"], chunk["created"], chunk["object"]) for chunk in chunks} == {
        (chunks[0]["id"], chunks[0]["created"], "chat.completion.chunk")
    }


async def test_a_stream_without_include_usage_has_no_usage_and_its_timings_on_the_last_chunk(
    start_runtime: RuntimeFactory,
) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = with_timings
        chunks = chunks_of(await runtime.ask(stream=True))
    assert not any("usage" in chunk for chunk in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["timings"]["prefill_ms"] == 20.25


async def test_tokens_are_sent_as_they_come(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": True}
        request = runtime.client.build_request("POST", "/v1/chat/completions", json=body)
        sending = runtime.client.send(request, stream=True)
        reply = asyncio.create_task(sending)
        generation = await runtime.engine.next_generation()
        generation.put(TokenEvent(tuple(runtime.engine.encode("he"))))
        response = await reply
        parts = response.aiter_bytes()
        assert b'"content":"he"' in await anext(parts)  # while the engine has said no more
        generation.put(TokenEvent(tuple(runtime.engine.encode("llo"))))
        assert b'"content":"llo"' in await anext(parts)
        generation.end()
        assert b"[DONE]" in b"".join([part async for part in parts])


async def test_an_emoji_of_four_tokens_is_one_chunk_and_half_of_one_is_dropped(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        emoji = runtime.engine.encode("😀")
        assert len(emoji) == 4

        def script(generation: ScriptedGeneration) -> None:
            for token in emoji + emoji[:2]:
                generation.put(TokenEvent((token,)))
            generation.end(FinishReason.LENGTH)

        runtime.engine.on_submit = script
        chunks = chunks_of(await runtime.ask(stream=True))
    deltas = [c["choices"][0]["delta"]["content"] for c in chunks if c["choices"][0]["delta"].get("content")]
    assert deltas == ["😀"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_string_ends_the_answer_and_the_generation(start_runtime: RuntimeFactory, stream: bool) -> None:
    async with start_runtime() as runtime:
        # The engine itself would go on: only cancelling makes it end.
        runtime.engine.on_submit = lambda generation: generation.say("hello DEFGHIJ world")
        response = await runtime.ask(stream=stream, stop=["DEFGHIJ", "\n"])
        assert runtime.engine.generations[0].cancelled.is_set()
    if stream:
        chunks = chunks_of(response)
        assert text_of(chunks) == "hello "
        assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    else:
        assert response.json()["choices"][0]["message"]["content"] == "hello "
        assert response.json()["choices"][0]["finish_reason"] == "stop"


async def test_the_timings_of_an_answer_that_a_stop_string_ended_are_final(start_runtime: RuntimeFactory) -> None:
    def script(generation: ScriptedGeneration) -> None:
        generation.timings_at_end = Timings(decode_ms=100.0)
        generation.say("hello STOP world")

    async with start_runtime() as runtime:
        runtime.engine.on_submit = script
        response = await runtime.ask(stop="STOP")
    assert response.json()["timings"]["decode_ms"] == 100.0


async def test_a_stop_string_that_only_began_is_part_of_the_answer(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = says("hello DEFG")
        response = await runtime.ask(stop="DEFGHIJ")
    assert response.json()["choices"][0]["message"]["content"] == "hello DEFG"


async def test_no_tokens_asked_for_is_answered_at_once_without_the_engine(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        response = await runtime.ask(max_tokens=0, headers={"x-latency-budget-ms": "5000"})
        assert runtime.engine.generations == []
    choice = response.json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "length")
    assert response.json()["usage"]["prompt_tokens"] > 0
    assert response.json()["usage"]["completion_tokens"] == 0


async def test_the_job_carries_what_was_asked_for(start_runtime: RuntimeFactory, tokenizer: Any) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = says("ok")
        await runtime.ask(
            "hello", max_tokens=5, temperature=0.5, top_p=0.9, top_k=7, seed=3, stop=["x"], cache_salt="s",
            headers={"x-request-id": "r-2"},
        )  # fmt: skip
        job = runtime.engine.generations[0].job
    assert job.request_id == "r-2"
    assert tokenizer.decode(job.prompt, skip_special_tokens=False) == (
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert (job.max_tokens, job.cache_salt) == (5, "s")
    assert job.stop_tokens == {tokenizer.token_to_id("<|im_end|>")}
    assert (job.sampling.temperature, job.sampling.top_p, job.sampling.top_k, job.sampling.seed) == (0.5, 0.9, 7, 3)


async def test_a_long_prompt_is_encoded_like_a_short_one(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        response = await runtime.ask("hello world " * 3000)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"


async def test_the_openai_client_reads_both_forms(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = says("hello world")
        async with openai.AsyncOpenAI(base_url=f"{runtime.client.base_url}/v1", api_key="none") as client:
            whole = await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])
            stream = await client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": "hi"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in stream]
            models = [model.id async for model in client.models.list()]
    assert whole.choices[0].message.content == "hello world"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "hello world"
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert models == [MODEL]

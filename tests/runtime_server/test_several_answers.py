from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from runtime_server.engine import FinishReason, TokenEvent, TokenLogprob
from tests.runtime_server.conftest import RunningRuntime, RuntimeFactory
from tests.runtime_server.scripted_engine import MODEL, ScriptedGeneration, says
from tests.support.waiting import until

ABLE = {
    "max_n": 8,
    "logprobs": True,
    "prompt_logprobs": True,
    "tools": True,
    "json_schema": True,
    "parameters": frozenset({"logit_bias"}),
}


def in_turn(*texts: str) -> Any:
    """Return a script that says these, one to each generation."""
    left = iter(texts)

    def script(generation: ScriptedGeneration) -> None:
        says(next(left))(generation)

    return script


async def complete(runtime: RunningRuntime, **fields: Any) -> Any:
    return await runtime.client.post("/v1/completions", json={"model": MODEL, "prompt": "hello", **fields})


async def test_choices_stand_in_order_and_their_prompt_counts_once(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.abilities = ABLE
        runtime.engine.on_submit = in_turn("hello", "world", "user")
        answer = (await runtime.ask(n=3, seed=5)).json()
        jobs = [generation.job for generation in runtime.engine.generations]
        said = [len(runtime.engine.encode(text)) for text in ("hello", "world", "user")]
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["hello", "world", "user"]
    assert [job.sampling.seed for job in jobs] == [5, 6, 7]
    assert answer["usage"]["prompt_tokens"] == len(jobs[0].prompt)
    assert answer["usage"]["completion_tokens"] == sum(said)


async def test_more_answers_than_slots_begin_when_others_end(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.abilities, runtime.engine.slots = ABLE, 2
        asking = asyncio.create_task(complete(runtime, prompt=["hello", "world", "the user"]))
        await until(lambda: len(runtime.engine.generations) == 2)
        says("a")(runtime.engine.generations[1])
        await until(lambda: len(runtime.engine.generations) == 3)
        says("c")(runtime.engine.generations[2])
        says("b")(runtime.engine.generations[0])
        answer = (await asking).json()
    assert [choice["text"] for choice in answer["choices"]] == ["b", "a", "c"]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]


async def test_a_client_that_hangs_up_ends_all_its_answers(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.abilities, runtime.engine.slots = ABLE, 2
        asking = asyncio.create_task(runtime.ask(n=3, stream=True))
        await until(lambda: len(runtime.engine.generations) == 2)
        asking.cancel()
        await until(lambda: all(each.cancelled.is_set() for each in runtime.engine.generations))
        await asyncio.gather(asking, return_exceptions=True)
        assert len(runtime.engine.generations) == 2


async def test_one_answer_that_fails_fails_the_request_and_ends_the_others(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.abilities = ABLE
        asking = asyncio.create_task(runtime.ask(n=2))
        await until(lambda: len(runtime.engine.generations) == 2)
        runtime.engine.generations[1].end(FinishReason.ERROR, "it broke")
        response = await asking
        assert response.status_code == 500
        await until(runtime.engine.generations[0].cancelled.is_set)


async def test_when_not_all_answers_get_a_place_none_is_begun_for_nothing(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.abilities, runtime.engine.places = ABLE, 1
        response = await runtime.ask(n=2)
        assert response.status_code == 503
        assert all(each.cancelled.is_set() for each in runtime.engine.generations)


def told(generation: ScriptedGeneration) -> None:
    """Say `hello`, each token with a log probability."""
    for at, token in enumerate(generation.encode("hello")):
        generation.put(TokenEvent((token,), logprobs=(TokenLogprob(token, -float(at), ((token, -float(at)),)),)))
    generation.end()


async def test_log_probabilities_of_a_half_emoji_are_bytes(start_runtime: RuntimeFactory) -> None:
    def script(generation: ScriptedGeneration) -> None:
        for token in generation.encode("😀"):
            generation.put(TokenEvent((token,), logprobs=(TokenLogprob(token, -1.0),)))
        generation.end()

    async with start_runtime() as runtime:
        runtime.engine.abilities, runtime.engine.on_submit = ABLE, script
        chat = (await runtime.ask(logprobs=True)).json()["choices"][0]
        older = (await complete(runtime, logprobs=0)).json()["choices"][0]["logprobs"]
    assert chat["message"]["content"] == "😀"
    entries = chat["logprobs"]["content"]
    assert bytes(byte for each in entries for byte in each["bytes"]).decode() == "😀"
    assert older["tokens"] == [f"bytes:\\x{byte:02x}" for byte in "😀".encode()]


async def test_an_echo_stands_before_the_answer_in_text_and_log_probabilities(start_runtime: RuntimeFactory) -> None:
    def script(generation: ScriptedGeneration) -> None:
        following = generation.job.prompt[1:]
        generation.put(TokenEvent(prompt=tuple(TokenLogprob(token, -2.0) for token in following)))
        told(generation)

    async with start_runtime() as runtime:
        runtime.engine.abilities, runtime.engine.on_submit = ABLE, script
        whole = (await complete(runtime, prompt="the world", echo=True, logprobs=1)).json()["choices"][0]
        job = runtime.engine.generations[0].job
        streamed = (await complete(runtime, prompt="the world", echo=True, logprobs=1, stream=True)).text
        silent = (await complete(runtime, prompt="the world", echo=True, max_tokens=0)).json()["choices"][0]
    assert job.prompt_logprobs
    assert whole["text"] == "the worldhello"
    found = whole["logprobs"]
    assert "".join(found["tokens"]) == "the worldhello"
    assert found["token_logprobs"][: len(job.prompt)] == [None, *[-2.0] * (len(job.prompt) - 1)]
    assert found["text_offset"][len(job.prompt)] == len("the world")
    chunks = [json.loads(line[6:]) for line in streamed.split("\n\n") if line.startswith("data: {")]
    assert "".join(choice["text"] for chunk in chunks for choice in chunk["choices"]) == "the worldhello"
    tokens = [t for c in chunks for choice in c["choices"] if choice["logprobs"] for t in choice["logprobs"]["tokens"]]
    assert tokens == found["tokens"]
    assert (silent["text"], silent["logprobs"], silent["finish_reason"]) == ("the world", None, "length")


async def test_calls_of_tools_in_an_answer_become_tool_calls(start_runtime: RuntimeFactory) -> None:
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    text = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    async with start_runtime() as runtime:
        runtime.engine.abilities, runtime.engine.on_submit = {**ABLE, "window": 2048}, says(text)
        answer = (await runtime.ask(tools=tools)).json()["choices"][0]
        assert runtime.engine.generations[0].job.constraint is not None
    [call] = answer["message"]["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": '{"a": 1}'}
    assert (answer["message"]["content"], answer["finish_reason"]) == (None, "tool_calls")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex"),
        ({"guided_json": {}}, "guided_json"),
        ({"logit_bias": {"100000": 1}}, "logit_bias"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}], "response_format": {"type": "json_object"}},
         "response_format"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"top_logprobs": 21}, "top_logprobs"),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_is_a_400_that_names_the_field(
    start_runtime: RuntimeFactory, fields: dict[str, Any], param: str
) -> None:
    async with start_runtime() as runtime:
        runtime.engine.abilities = ABLE
        response = await runtime.ask(**fields)
        assert runtime.engine.generations == []
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"prompt": [100_000]}, "invalid_field", "prompt"),
        ({"prompt": "hello " * 400}, "context_length_exceeded", "prompt"),
        ({"prompt": ""}, "invalid_field", "prompt"),
        ({"echo": True, "logprobs": 1}, "capability_unavailable", "echo"),
        ({"logprobs": 1}, "capability_unavailable", "logprobs"),
    ],
)
async def test_a_completion_that_cannot_be_done_is_refused_by_its_field(
    start_runtime: RuntimeFactory, fields: dict[str, Any], code: str, param: str
) -> None:
    async with start_runtime() as runtime:
        runtime.engine.abilities = {"logprobs": param != "logprobs"}
        response = await complete(runtime, **fields)
        assert runtime.engine.generations == []
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, code, param)

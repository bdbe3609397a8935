"""What an edge runtime answers with, over its socket and with the default model: forms, tools, several answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tokenizers import Tokenizer

from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from tests.edge_runtime.serving_process import MODEL, edge_process

pytestmark = pytest.mark.models

SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "river": {"type": "string", "maxLength": 12}},
    "required": ["city", "river"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": SCHEMA}}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"enum": [1, 7]}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
NOW = {"type": "function", "function": {"name": "now"}}


@pytest.fixture(scope="module")
def edge(edge_model: Path) -> Iterator[httpx.Client]:
    with edge_process(edge_model, "--slots", "4", "--context", "512") as client:
        yield client


def body(text: str = "What is the capital of France?", **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 48, **more}


def chat(edge: httpx.Client, text: str = "What is the capital of France?", **more: Any) -> dict[str, Any]:
    response = edge.post("/v1/chat/completions", json=body(text, **more))
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def streamed(edge: httpx.Client, **more: Any) -> list[dict[str, Any]]:
    text = edge.post("/v1/chat/completions", json=body(stream=True, **more)).text
    assert text.endswith("data: [DONE]\n\n")
    return [json.loads(line[6:]) for line in text.split("\n\n") if line.startswith("data: {")]


def content(answer: dict[str, Any], index: int = 0) -> str:
    text: str = answer["choices"][index]["message"]["content"]
    return text


def test_an_answer_under_a_schema_is_json_that_the_schema_allows(edge: httpx.Client) -> None:
    answer = chat(edge, response_format=FORMAT)
    found = json.loads(content(answer))
    assert found.keys() == {"city", "river"}
    assert found["city"] in ("Paris", "Rome")
    assert len(found["river"]) <= 12
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_a_form_that_the_output_cap_cuts_ends_for_its_length(edge: httpx.Client) -> None:
    answer = chat(edge, response_format=FORMAT, max_tokens=3)
    assert content(answer).startswith('{"city"')
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("wanted", "pattern"),
    [
        ({"regex": "[A-Z][a-z]{2,8}, [0-9]{4}"}, r"[A-Z][a-z]{2,8}, [0-9]{4}"),
        ({"choice": ["Lyon", "Nice"]}, r"Lyon|Nice"),
        ({"json_object": True}, r"\{.*"),
    ],
)
def test_patterns_choices_and_objects_are_kept_to(edge: httpx.Client, wanted: Any, pattern: str) -> None:
    assert re.fullmatch(pattern, content(chat(edge, structured_outputs=wanted)), re.DOTALL)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "nope"}, "`type`"),
        ({"$ref": "#"}, "cannot be compiled"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"$ref": "http://127.0.0.1/s.json"}, "`$ref`"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "nothing satisfies"),
        ({"enum": ["x" * 1000] * 1000}, "larger than"),
    ],
)
def test_a_schema_that_cannot_be_kept_to_is_a_400_that_says_why_and_harms_nobody(
    edge: httpx.Client, schema: dict[str, Any], said: str
) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    refused = edge.post("/v1/chat/completions", json=body(response_format=wanted))
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "response_format.json_schema.schema"
    assert said in refused.json()["error"]["message"]
    assert content(chat(edge, max_tokens=4))


def test_a_required_call_has_parsed_arguments_that_the_tools_schema_allows(edge: httpx.Client) -> None:
    answer = chat(edge, "Weather in Rome?", tools=[WEATHER, NOW], tool_choice="required", parallel_tool_calls=False)
    choice = answer["choices"][0]
    [call] = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    if call["function"]["name"] == "get_weather":
        arguments = json.loads(call["function"]["arguments"])
        assert arguments["city"] in ("Paris", "Rome")
        assert arguments["days"] in (1, 7)
    else:
        assert json.loads(call["function"]["arguments"]) == {}


def test_a_named_call_is_streamed_as_deltas_that_add_up_to_the_whole(edge: httpx.Client) -> None:
    named = {"tools": [WEATHER, NOW], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
    [whole] = chat(edge, **named)["choices"][0]["message"]["tool_calls"]
    chunks = streamed(edge, **named)
    parts = [part for c in chunks for choice in c["choices"] for part in choice["delta"].get("tool_calls", ())]
    assert parts[0]["id"].startswith("call_")
    assert parts[0]["function"] == {"name": "get_weather", "arguments": ""}
    assert {part["index"] for part in parts} == {0}
    assert "".join(part["function"]["arguments"] for part in parts) == whole["function"]["arguments"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert not any(choice["delta"].get("content") for c in chunks for choice in c["choices"])


def test_with_tool_choice_none_the_model_is_shown_no_tools(edge: httpx.Client) -> None:
    without, offered = chat(edge), chat(edge, tools=[WEATHER], tool_choice="none")
    assert content(offered) == content(without)
    assert offered["usage"]["prompt_tokens"] == without["usage"]["prompt_tokens"]


def test_several_answers_count_their_prompt_once_and_the_first_is_that_of_one(edge: httpx.Client) -> None:
    drawn = {"temperature": 1.0, "seed": 7, "max_tokens": 12}
    one, three = chat(edge, **drawn), chat(edge, n=3, **drawn)
    assert [choice["index"] for choice in three["choices"]] == [0, 1, 2]
    assert content(three, 0) == content(one)
    assert len({content(three, index) for index in range(3)}) > 1
    assert three["usage"]["prompt_tokens"] == one["usage"]["prompt_tokens"]
    assert three["usage"]["completion_tokens"] > one["usage"]["completion_tokens"]


def test_several_answers_are_streamed_side_by_side_each_under_its_index(edge: httpx.Client) -> None:
    drawn = {"temperature": 1.0, "seed": 7, "max_tokens": 12, "n": 2}
    whole = chat(edge, **drawn)
    texts = ["", ""]
    order = []
    for chunk in streamed(edge, **drawn):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content", "")
            order.append(choice["index"])
    assert texts == [content(whole, 0), content(whole, 1)]
    assert order != sorted(order)


def test_rows_of_every_kind_in_one_batch_say_what_each_says_alone(edge: httpx.Client) -> None:
    kinds: list[dict[str, Any]] = [
        {},
        {"temperature": 0.9, "seed": 3, "top_p": 0.9, "top_k": 40, "min_p": 0.02},
        {"response_format": FORMAT},
        {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.2, "logit_bias": {"284": -5}},
    ]
    alone = [content(chat(edge, **kind)) for kind in kinds]
    with ThreadPoolExecutor(len(kinds)) as pool:
        for _ in range(2):
            together = list(pool.map(lambda kind: content(chat(edge, **kind)), kinds))
            assert together == alone
    assert len(set(alone)) == len(kinds)


def test_log_probabilities_are_those_of_the_greedy_answers_own_tokens(edge: httpx.Client) -> None:
    answer = chat(edge, logprobs=True, top_logprobs=3, max_tokens=6)
    told = answer["choices"][0]["logprobs"]["content"]
    assert b"".join(bytes(each["bytes"]) for each in told).decode() == content(answer)
    assert all(each["logprob"] == each["top_logprobs"][0]["logprob"] for each in told)
    assert all(len(each["top_logprobs"]) == 3 for each in told)
    in_stream = [
        each
        for chunk in streamed(edge, logprobs=True, top_logprobs=3, max_tokens=6)
        for choice in chunk["choices"]
        if choice["logprobs"]
        for each in choice["logprobs"]["content"]
    ]
    assert [each["token"] for each in in_stream] == [each["token"] for each in told]


def test_tokens_of_a_stop_string_are_told_to_nobody(edge: httpx.Client) -> None:
    whole = content(chat(edge, max_tokens=12))
    cut = chat(edge, max_tokens=12, stop=[whole[3:9]], logprobs=True)
    assert content(cut) == whole[:3]
    assert [each["token"] for each in cut["choices"][0]["logprobs"]["content"]] == [whole[:3]]


def test_a_bias_rules_a_token_out_and_one_that_is_no_token_is_refused(edge: httpx.Client) -> None:
    def first(**more: Any) -> Any:
        return chat(edge, logprobs=True, max_tokens=1, **more)["choices"][0]["logprobs"]["content"][0]

    said = first()
    ids = edge.post("/v1/tokenize", json={"prompt": said["token"]}).json()["tokens"]
    biased = first(logit_bias={str(ids[0]): -100})
    assert biased["token"] != said["token"]
    refused = edge.post("/v1/chat/completions", json=body(logit_bias={"999999": 1}))
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "logit_bias")


def test_an_echoed_prompts_log_probabilities_are_the_models_own(edge: httpx.Client, edge_model: Path) -> None:
    prompt = "The sea is blue, and the sky above it is grey."
    ids = Tokenizer.from_file(str(edge_model / "tokenizer.json")).encode(prompt).ids
    graph = DecoderGraph(edge_model, read_genai_config(edge_model), slots=1, window=64, threads=1)
    logits = np.array(graph.read(0, ids, 0, range(len(ids) - 1)), np.float64)
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    for given in (prompt, ids):
        asked = {"model": MODEL, "prompt": given, "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0}
        answer = edge.post("/v1/completions", json=asked).json()
        [choice] = answer["choices"]
        found = choice["logprobs"]
        assert (choice["text"], choice["finish_reason"]) == (prompt, "length")
        assert "".join(found["tokens"]) == prompt
        assert [prompt[at:][: len(token)] for at, token in zip(found["text_offset"], found["tokens"], strict=True)] == (
            found["tokens"]
        )
        assert found["token_logprobs"][0] is None
        own = [row[token] for row, token in zip(expected, ids[1:], strict=True)]
        np.testing.assert_allclose(found["token_logprobs"][1:], own, atol=2e-3)
        best = [max(each, key=each.get) for each in found["top_logprobs"][1:]]
        assert [token == top for token, top in zip(found["tokens"][1:], best, strict=True)] == [
            int(row.argmax()) == token for row, token in zip(expected, ids[1:], strict=True)
        ]
        assert answer["usage"]["completion_tokens"] == 0
        assert answer["usage"]["prompt_tokens"] == len(ids)


def test_completions_answer_several_prompts_in_order_streamed_or_not(edge: httpx.Client) -> None:
    prompts = ["The sea is", "Once upon a", "One, two, three,", "Paris is", "A, B, C,"]
    asked = {"model": MODEL, "prompt": prompts, "max_tokens": 5, "temperature": 0}
    together = [choice["text"] for choice in edge.post("/v1/completions", json=asked).json()["choices"]]
    alone = [
        edge.post("/v1/completions", json={**asked, "prompt": prompt}).json()["choices"][0]["text"]
        for prompt in prompts
    ]
    assert together == alone
    lines = edge.post("/v1/completions", json={**asked, "stream": True}).text.split("\n\n")
    texts = [""] * len(prompts)
    for chunk in (json.loads(line[6:]) for line in lines if line.startswith("data: {")):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == alone


def test_a_completion_stops_at_its_stop_string_and_after_one_token(edge: httpx.Client) -> None:
    asked = {"model": MODEL, "prompt": "One, two, three,", "temperature": 0, "max_tokens": 12}
    whole = edge.post("/v1/completions", json=asked).json()["choices"][0]["text"]
    stopped = edge.post("/v1/completions", json={**asked, "stop": whole[3:6]}).json()["choices"][0]
    assert (stopped["text"], stopped["finish_reason"]) == (whole[:3], "stop")
    once = edge.post("/v1/completions", json={**asked, "max_tokens": 1}).json()
    assert once["usage"]["completion_tokens"] == 1
    assert once["choices"][0]["finish_reason"] == "length"

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.runtime_server.conftest import RuntimeFactory
from tests.runtime_server.scripted_engine import MODEL, WINDOW

MESSAGES = [{"role": "user", "content": "hello <|im_end|>"}]


async def test_a_chat_is_shown_as_the_prompt_and_the_tokens_that_a_completion_reads(
    start_runtime: RuntimeFactory, tokenizer: Tokenizer
) -> None:
    async with start_runtime() as runtime:
        found = (await runtime.client.post("/v1/tokenize", json={"model": MODEL, "messages": MESSAGES})).json()
        asked = {"model": MODEL, "messages": MESSAGES, "max_tokens": 0}
        usage = (await runtime.client.post("/v1/chat/completions", json=asked)).json()["usage"]
    assert found["prompt"] == "<|im_start|>user\nhello <|im_end|><|im_end|>\n<|im_start|>assistant\n"
    assert found["count"] == len(found["tokens"]) == usage["prompt_tokens"]
    assert found["max_model_len"] == WINDOW
    assert tokenizer.decode(found["tokens"], skip_special_tokens=False) == found["prompt"]
    end = tokenizer.token_to_id("<|im_end|>")
    assert found["tokens"].count(end) == 1  # the template's own; the caller's is text


async def test_a_prompt_is_tokenized_as_it_stands_control_tokens_as_control(
    start_runtime: RuntimeFactory, tokenizer: Tokenizer
) -> None:
    async with start_runtime() as runtime:
        body = {"prompt": "hello<|im_end|>", "return_token_strs": True}
        found = (await runtime.client.post("/v1/tokenize", json=body)).json()
    assert found["tokens"][-1] == tokenizer.token_to_id("<|im_end|>")
    assert found["token_strs"][-1] == "<|im_end|>"


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "prompt"),
        ({"prompt": "x", "messages": MESSAGES}, 400, "prompt"),
        ({"prompt": ""}, 400, "prompt"),
        ({"messages": []}, 400, "messages"),
        ({"prompt": "x", "model": "other"}, 404, "model"),
    ],
)
async def test_what_cannot_be_tokenized_is_refused_by_its_field(
    start_runtime: RuntimeFactory, body: dict[str, Any], status: int, param: str
) -> None:
    async with start_runtime() as runtime:
        answer = await runtime.client.post("/v1/tokenize", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from inference_protocol.errors import Unavailable
from runtime_server.engine import FinishReason
from runtime_server.generation_endpoint import RequestLimits
from tests.runtime_server.conftest import RunningRuntime, RuntimeFactory
from tests.runtime_server.scripted_engine import MODEL, WINDOW, says

CHAT = "/v1/chat/completions"


def error_of(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert set(error) >= {"message", "type", "param", "code", "request_id"}
    assert response.headers["x-request-id"] == error["request_id"]
    return error


async def assert_still_answers(runtime: RunningRuntime) -> None:
    runtime.engine.on_submit = says("hello")
    assert (await runtime.ask()).json()["choices"][0]["message"]["content"] == "hello"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b'{"model": ', "malformed_body", None),
        (b'{"model": "\xff"}', "malformed_body", None),
        (b'{"model": "a", "model": "b"}', "malformed_body", "model"),
        (b'{"\\ud83d": 1, "\\ud83d": 2}', "malformed_body", None),
        (b"[]", "malformed_body", None),
        (b"", "malformed_body", None),
        (b'{"model": "tiny", "messages": []}', "invalid_field", "messages"),
        (b'{"model": "tiny", "messages": [{"role": "user", "content": "\\ud83d"}]}', "invalid_field", "messages"),
        (b'{"model": "tiny", "messages": [{"role": "root", "content": "x"}]}', "invalid_field", "messages[0].role"),
        (b'{"model": 3, "messages": [{"role": "user", "content": "x"}]}', "invalid_field", "model"),
    ],
)
async def test_a_bad_body_is_a_400_that_names_the_fault_and_harms_nobody(
    start_runtime: RuntimeFactory, body: bytes, code: str, param: str | None
) -> None:
    async with start_runtime() as runtime:
        response = await runtime.client.post(CHAT, content=body)
        assert response.status_code == 400
        error = error_of(response)
        assert (error["code"], error["param"]) == (code, param)
        await assert_still_answers(runtime)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logprobs": True}, "logprobs"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "tool", "content": "4", "tool_call_id": "c"}]}, "tools"),
        ({"messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}]}, "tools"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"logit_bias": {"5": -100}}, "logit_bias"),
    ],
)
async def test_what_the_runtime_cannot_do_is_refused_and_not_ignored(
    start_runtime: RuntimeFactory, more: dict[str, Any], param: str
) -> None:
    async with start_runtime() as runtime:
        response = await runtime.ask(**more)
        assert runtime.engine.generations == []
    assert response.status_code == 400
    error = error_of(response)
    assert (error["code"], error["param"]) == ("capability_unavailable", param)


async def test_values_that_change_nothing_are_accepted(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = says("hello")
        response = await runtime.ask(
            n=1, tools=[], presence_penalty=0, frequency_penalty=0.0, logit_bias={}, response_format={"type": "text"},
            logprobs=False, repetition_penalty=1.0, user="someone", metadata={"a": "b"},
        )  # fmt: skip
    assert response.status_code == 200


async def test_an_unknown_model_is_a_404_that_does_not_repeat_its_name(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        response = await runtime.ask(model="somebody@example.com")
    assert response.status_code == 404
    assert error_of(response)["code"] == "model_not_found"
    assert "somebody" not in response.text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/embeddings", 405, "method_not_allowed"),
        ("GET", "/v1/audio/speech", 404, "not_found"),
        ("GET", "/v1/completions", 405, "method_not_allowed"),
        ("GET", "/v1/models/", 404, "not_found"),
        ("GET", CHAT, 405, "method_not_allowed"),
        ("POST", "/livez", 405, "method_not_allowed"),
    ],
)
async def test_unknown_routes_and_methods_answer_in_the_same_shape(
    start_runtime: RuntimeFactory, method: str, path: str, status: int, code: str
) -> None:
    async with start_runtime() as runtime:
        response = await runtime.client.request(method, path)
    assert response.status_code == status
    assert error_of(response)["code"] == code


async def test_a_body_over_the_limit_is_a_413_whether_announced_or_not(start_runtime: RuntimeFactory) -> None:
    async def in_chunks() -> Any:
        for _ in range(40):
            yield b"x" * 1_000_000

    async with start_runtime(limits=RequestLimits(body_bytes=1 << 20)) as runtime:
        announced = await runtime.client.post(CHAT, content=b"x" * 40_000_000)
        chunked = await runtime.client.post(CHAT, content=in_chunks())
        exact = await runtime.client.post(CHAT, content=b" " * (1 << 20))
        await assert_still_answers(runtime)
    assert (announced.status_code, chunked.status_code, exact.status_code) == (413, 413, 400)
    assert error_of(announced)["code"] == error_of(chunked)["code"] == "body_too_large"


async def test_a_body_that_never_ends_is_given_up(start_runtime: RuntimeFactory) -> None:
    async with start_runtime(limits=RequestLimits(body_timeout_s=0.05)) as runtime:
        reader, writer = await asyncio.open_connection(*runtime.address)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{")
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 408 ")  # and hangs up
        writer.close()
        await writer.wait_closed()


async def test_a_compressed_body_is_a_415(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        response = await runtime.client.post(CHAT, content=b"\x1f\x8b", headers={"content-encoding": "gzip"})
    assert response.status_code == 415
    assert error_of(response)["code"] == "unsupported_encoding"


@pytest.mark.parametrize(
    ("header", "value"),
    [("x-latency-budget-ms", "-5"), ("x-latency-budget-ms", "soon"), ("x-latency-budget-ms", "nan"),
     ("x-tidegate-late", "never")],
)  # fmt: skip
async def test_a_header_that_cannot_be_read_is_a_400_that_names_it(
    start_runtime: RuntimeFactory, header: str, value: str
) -> None:
    async with start_runtime() as runtime:
        response = await runtime.ask(headers={header: value})
    assert response.status_code == 400
    assert (error_of(response)["code"], error_of(response)["param"]) == ("invalid_header", header)


async def test_a_request_id_that_could_forge_a_log_line_is_replaced(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        response = await runtime.client.get("/nowhere", headers={"x-request-id": "a b;c"})
    assert error_of(response)["request_id"] != "a b;c"


async def test_a_prompt_beyond_the_window_is_refused_with_both_numbers(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        response = await runtime.ask("hello " * WINDOW)
    error = error_of(response)
    assert (response.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["details"]["n_prompt"] > error["details"]["window"] == WINDOW


@pytest.mark.parametrize(("asked", "got"), [(10_000, "left"), (5, 5), (None, 7)])
async def test_the_output_cap_is_what_was_asked_for_within_the_window(
    start_runtime: RuntimeFactory, asked: int | None, got: Any
) -> None:
    async with start_runtime(limits=RequestLimits(default_max_tokens=7)) as runtime:
        runtime.engine.on_submit = says("hello", FinishReason.LENGTH)
        response = await runtime.ask(max_tokens=asked)
        job = runtime.engine.generations[0].job
    assert job.max_tokens == (WINDOW - len(job.prompt) if got == "left" else got)
    assert response.json()["choices"][0]["finish_reason"] == "length"


async def test_a_full_queue_is_a_503_with_retry_after_and_reason(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.places = 0
        response = await runtime.ask()
        runtime.engine.places = 8
        await assert_still_answers(runtime)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    error = error_of(response)
    assert (error["code"], error["details"]) == ("overloaded", {"reason": "rejected-saturated"})


async def test_an_engine_that_fails_before_the_first_token_is_a_500(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = lambda g: g.end(FinishReason.ERROR, "the logits were not finite")
        responses = [await runtime.ask(stream=stream) for stream in (False, True)]
        await assert_still_answers(runtime)
    for response in responses:
        assert response.status_code == 500
        assert error_of(response)["code"] == "internal_error"
        assert "logits" in error_of(response)["message"]


async def test_an_engine_that_fails_in_the_middle_ends_the_stream_with_an_error_and_no_done(
    start_runtime: RuntimeFactory,
) -> None:
    async with start_runtime() as runtime:

        def script(generation: Any) -> None:
            generation.say("hello")
            generation.end(FinishReason.ERROR, "the logits were not finite")

        runtime.engine.on_submit = script
        response = await runtime.ask(stream=True)
    frames = [frame for frame in response.text.split("\n\n") if frame]
    assert response.status_code == 200
    assert "[DONE]" not in response.text
    assert sum('"error"' in frame for frame in frames) == 1
    assert frames[-1].startswith("data: ")
    assert json.loads(frames[-1].removeprefix("data: "))["error"]["code"] == "internal_error"


async def test_a_fault_of_ours_is_a_500_without_its_text_and_the_next_request_is_fine(
    start_runtime: RuntimeFactory,
) -> None:
    async with start_runtime() as runtime:

        def script(_: Any) -> None:
            raise ZeroDivisionError("a secret")

        runtime.engine.on_submit = script
        response = await runtime.ask()
        await assert_still_answers(runtime)
    assert response.status_code == 500
    assert error_of(response)["code"] == "internal_error"
    assert "secret" not in response.text


async def test_an_engine_that_cannot_take_more_says_so_in_its_own_words(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:

        def script(_: Any) -> None:
            raise Unavailable("The model is being swapped.")

        runtime.engine.on_submit = script
        response = await runtime.ask()
    assert (response.status_code, error_of(response)["message"]) == (503, "The model is being swapped.")
    assert MODEL not in response.text

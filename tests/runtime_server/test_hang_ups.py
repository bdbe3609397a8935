from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runtime_server.engine import FinishReason
from runtime_server.generation_endpoint import RequestLimits
from runtime_server.prompt import PromptEncoder
from tests.runtime_server.conftest import RunningRuntime, RuntimeFactory
from tests.runtime_server.scripted_engine import MODEL, says
from tests.support.waiting import until


@asynccontextmanager
async def connection(
    runtime: RunningRuntime, *, stream: bool
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Send a request by hand, so that the connection can be dropped at any moment."""
    reader, writer = await asyncio.open_connection(*runtime.address)
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": stream}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    writer.write(head + body)
    yield reader, writer
    writer.transport.abort()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_hangs_up_before_the_first_token_ends_its_generation(
    start_runtime: RuntimeFactory, stream: bool
) -> None:
    async with start_runtime() as runtime:
        async with connection(runtime, stream=stream):
            generation = await runtime.engine.next_generation()
            assert not generation.cancelled.is_set()
        await asyncio.wait_for(generation.cancelled.wait(), 5)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_hangs_up_in_the_middle_ends_its_generation(
    start_runtime: RuntimeFactory, stream: bool
) -> None:
    async with start_runtime() as runtime:
        async with connection(runtime, stream=stream) as (reader, _):
            generation = await runtime.engine.next_generation()
            generation.say("hello")
            if stream:
                await asyncio.wait_for(reader.readuntil(b'"content":"'), 5)
            assert not generation.cancelled.is_set()
        await asyncio.wait_for(generation.cancelled.wait(), 5)


async def test_hang_ups_leave_nothing_behind_and_others_run_on(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.places = 2
        async with connection(runtime, stream=True) as (reader, _):
            kept = await runtime.engine.next_generation()
            for _ in range(20):  # with two places, a leaked one would refuse the second of these
                async with connection(runtime, stream=True):
                    dropped = await runtime.engine.next_generation()
                await asyncio.wait_for(dropped.cancelled.wait(), 5)
            kept.say("hello")
            kept.end()
            assert b"[DONE]" in await asyncio.wait_for(reader.readuntil(b"[DONE]"), 5)
        runtime.engine.on_submit = says("hello")
        assert (await runtime.ask()).status_code == 200
        await asyncio.wait_for(runtime.lifecycle.drain(5), 5)  # which waits until nothing is counted as running


async def test_a_hang_up_is_told_in_the_trace_and_is_no_error(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        async with connection(runtime, stream=False):
            generation = await runtime.engine.next_generation()
        await asyncio.wait_for(generation.cancelled.wait(), 5)
        await runtime.client.get("/livez")
    (span,) = [span for span in runtime.spans.get_finished_spans() if span.name.startswith("POST")]
    assert span.attributes is not None
    assert span.attributes["tidegate.outcome"] == "client_closed"
    assert "error.type" not in span.attributes
    assert span.status.is_unset


async def test_a_budget_that_ends_before_the_first_token_is_a_504_and_ends_the_generation(
    start_runtime: RuntimeFactory,
) -> None:
    async with start_runtime() as runtime:
        response = await runtime.ask(headers={"x-latency-budget-ms": "30"})
        assert runtime.engine.generations[0].cancelled.is_set()
        spent = await runtime.ask(headers={"x-latency-budget-ms": "0.001"}, stream=True)
    assert (response.status_code, spent.status_code) == (504, 504)
    assert response.json()["error"]["code"] == "deadline_exceeded"


async def test_a_budget_does_not_end_an_answer_that_has_begun(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        asking = asyncio.create_task(runtime.ask(headers={"x-latency-budget-ms": "150"}))
        generation = await runtime.engine.next_generation()
        generation.say("hello")
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        loop.call_later(0.3, over.set)
        await over.wait()
        generation.say(" world")
        generation.end()
        response = await asking
    assert response.json()["choices"][0]["message"]["content"] == "hello world"
    assert generation.job.deadline is None


async def test_with_truncate_the_engine_is_told_the_deadline(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = says("hello", FinishReason.LENGTH)
        before = asyncio.get_running_loop().time()
        response = await runtime.ask(headers={"x-latency-budget-ms": "5000", "x-tidegate-late": "truncate"})
        deadline = runtime.engine.generations[0].job.deadline
    assert deadline is not None
    assert before + 5 <= deadline <= asyncio.get_running_loop().time() + 5
    assert response.json()["choices"][0]["finish_reason"] == "length"


async def test_with_truncate_an_engine_that_stops_in_time_with_nothing_is_a_504(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        runtime.engine.on_submit = lambda generation: generation.end(FinishReason.LENGTH)
        headers = {"x-latency-budget-ms": "5000", "x-tidegate-late": "truncate"}
        assert (await runtime.ask(headers=headers)).status_code == 504


async def test_a_client_that_hangs_up_while_its_prompt_is_encoded_is_never_submitted(
    start_runtime: RuntimeFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding, go_on = hold_encoding(monkeypatch)
    async with start_runtime(limits=RequestLimits(inline_body_bytes=0)) as runtime:
        async with connection(runtime, stream=True):
            assert await asyncio.to_thread(encoding.wait, 5)
            assert (await runtime.client.get("/livez")).status_code == 200  # encoding does not hold up the loop
        await runtime.client.get("/livez")
        go_on.set()
        await until(lambda: has_ended(runtime))
        assert runtime.engine.generations == []


async def test_a_prompt_that_is_encoded_when_the_drain_begins_is_refused(
    start_runtime: RuntimeFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding, go_on = hold_encoding(monkeypatch)
    async with start_runtime(limits=RequestLimits(inline_body_bytes=0)) as runtime:
        asking = asyncio.create_task(runtime.ask())
        assert await asyncio.to_thread(encoding.wait, 5)
        await runtime.lifecycle.drain(5)
        go_on.set()
        response = await asking
        assert runtime.engine.generations == []
    assert response.json()["error"]["code"] == "draining"


def hold_encoding(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Return an event that says that a prompt is being encoded, and one that it waits for."""
    encoding, go_on = threading.Event(), threading.Event()
    real = PromptEncoder.encode

    def held(self: PromptEncoder, *asked: Any, **how: Any) -> tuple[int, ...]:
        encoding.set()
        assert go_on.wait(5)
        return real(self, *asked, **how)

    monkeypatch.setattr(PromptEncoder, "encode", held)
    return encoding, go_on


async def has_ended(runtime: RunningRuntime) -> bool:
    return len(runtime.spans.get_finished_spans()) > 0

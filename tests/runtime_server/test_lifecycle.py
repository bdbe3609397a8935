from __future__ import annotations

import asyncio

import pytest

from inference_protocol.runtime_state import RuntimeState, RuntimeStatus
from runtime_server import lifecycle
from runtime_server.model_signature import Untrusted
from tests.runtime_server.conftest import RunningRuntime, RuntimeFactory
from tests.runtime_server.scripted_engine import MODEL, WINDOW, says
from tests.support.waiting import until


async def state_of(runtime: RunningRuntime) -> RuntimeState:
    return RuntimeState.model_validate_json((await runtime.client.get("/internal/state")).content)


async def test_while_the_model_loads_the_runtime_is_live_not_ready_and_says_what_it_waits_for(
    start_runtime: RuntimeFactory,
) -> None:
    async with start_runtime(ready=False) as runtime:
        assert (await runtime.client.get("/livez")).status_code == 200
        ready = await runtime.client.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "starting", "detail": "reading the weights"})
        assert (await state_of(runtime)).detail == "reading the weights"
        assert (await runtime.client.get("/v1/models")).json()["data"] == []
        refused = await runtime.ask()
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["code"] == "unavailable"

        runtime.engine.loaded.set()
        await until(runtime.is_ready)
        runtime.engine.on_submit = says("hello")
        assert (await runtime.ask()).status_code == 200
        (model,) = (await runtime.client.get("/v1/models")).json()["data"]
        assert (model["id"], model["object"], model["max_model_len"]) == (MODEL, "model", WINDOW)


async def test_an_engine_that_cannot_load_is_failed_with_its_reason(start_runtime: RuntimeFactory) -> None:
    async with start_runtime(ready=False) as runtime:
        runtime.engine.load_error = OSError("model.onnx is missing")
        runtime.engine.loaded.set()
        await asyncio.wait_for(runtime.lifecycle.failed.wait(), 5)
        state = await state_of(runtime)
        assert (state.status, state.detail) == (RuntimeStatus.FAILED, "OSError: model.onnx is missing")
        assert (await runtime.client.get("/livez")).status_code == 200
        assert (await runtime.client.get("/readyz")).status_code == 503
        assert (await runtime.ask()).status_code == 503


@pytest.mark.parametrize(("error", "traced"), [(Untrusted("signed by nobody"), False), (OSError("broken"), True)])
async def test_what_a_person_can_mend_is_said_without_where_it_was_found(
    start_runtime: RuntimeFactory, caplog: pytest.LogCaptureFixture, error: Exception, traced: bool
) -> None:
    async with start_runtime(ready=False) as runtime:
        runtime.engine.load_error = error
        runtime.engine.loaded.set()
        await asyncio.wait_for(runtime.lifecycle.failed.wait(), 5)
    (record,) = [record for record in caplog.records if "could not start" in record.message]
    assert (str(error) in record.message, bool(record.exc_info)) == (True, traced)


async def test_an_engine_that_dies_later_is_noticed(
    start_runtime: RuntimeFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "_LOOK_EVERY_S", 0.01)
    async with start_runtime() as runtime:
        runtime.engine.status, runtime.engine.detail = RuntimeStatus.FAILED, "the device is gone"
        await asyncio.wait_for(runtime.lifecycle.failed.wait(), 5)
        assert (await state_of(runtime)).detail == "the device is gone"


async def test_draining_refuses_new_requests_and_lets_running_ones_finish(start_runtime: RuntimeFactory) -> None:
    async with start_runtime() as runtime:
        asking = asyncio.create_task(runtime.ask())
        generation = await runtime.engine.next_generation()
        draining = asyncio.create_task(runtime.lifecycle.drain(10))
        await asyncio.sleep(0)  # the drain begins

        ready = await runtime.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "draining")
        assert (await runtime.client.get("/livez")).status_code == 200
        refused = await runtime.ask()
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "draining"
        assert refused.json()["error"]["details"] == {"reason": "rejected-shutting-down"}
        assert not draining.done()

        generation.say("hello")
        generation.end()
        assert (await asking).json()["choices"][0]["message"]["content"] == "hello"
        await asyncio.wait_for(draining, 5)


@pytest.mark.parametrize("stream", [False, True])
async def test_what_does_not_finish_in_time_is_cancelled_and_told_why(
    start_runtime: RuntimeFactory, stream: bool
) -> None:
    async with start_runtime() as runtime:
        asking = asyncio.create_task(runtime.ask(stream=stream))
        generation = await runtime.engine.next_generation()
        generation.say("hello")
        await runtime.lifecycle.drain(0.05)
        response = await asking
    assert generation.cancelled.is_set()
    assert "[DONE]" not in response.text
    if stream:
        assert '"code":"draining"' in response.text
    else:
        assert response.status_code == 503
        assert response.json()["error"]["details"] == {"reason": "evicted-shutting-down"}

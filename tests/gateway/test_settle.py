"""However a request ends, it is accounted for once: record, span, places, and what it teaches the latency model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.conftest import House, HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, says

BODY: dict[str, Any] = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
EDGE_ONLY = {"x-data-class": "restricted"}


async def predicted(h: House) -> dict[str, Any]:
    """What the edge is expected to take for one request."""
    found = (await h.gateway.client.post("/v1/route/explain", json=BODY, headers=EDGE_ONLY)).json()
    prediction: dict[str, Any] = found["targets"]["edge"]["prediction"]
    return prediction


async def test_answers_move_what_is_predicted_of_their_target(house: HouseFactory) -> None:
    """The runtime reports 10 ms a token and answers much sooner: the model must learn from what it sees."""
    async with house(edge=ScriptedRuntime(says("fine indeed"))) as h:
        before = await predicted(h)
        for _ in range(12):
            await h.gateway.chat(stream=True, headers=EDGE_ONLY, max_tokens=8)
        after = await predicted(h)
        assert after["ttft_ms"] < before["ttft_ms"] / 2
        assert after["total_ms"] < before["total_ms"] / 2


async def test_what_a_target_refused_teaches_nothing(house: HouseFactory) -> None:
    async def refuses(request: Received) -> None:
        await request.json_answer(503, {"error": {"message": "busy"}})

    async with house(edge=ScriptedRuntime(refuses)) as h:
        before = await predicted(h)
        for _ in range(12):
            assert (await h.gateway.chat(headers=EDGE_ONLY, max_tokens=8)).status_code == 503
        assert await predicted(h) == before


async def test_an_explanation_is_settled_as_any_request_is(house: HouseFactory) -> None:
    async with house() as h:
        good = await h.gateway.client.post("/v1/route/explain", json=BODY)
        bad = await h.gateway.client.post("/v1/route/explain", json={**BODY, "messages": []})
        told = await h.until_settled(2)
        assert [(each["route"], each["outcome"], each["error"]) for each in told] == [
            ("/v1/route/explain", "ok", None),
            ("/v1/route/explain", "invalid_request", "invalid_field"),
        ]
        assert [each["request_id"] for each in told] == [r.headers["x-request-id"] for r in (good, bad)]
        assert all(each["attempts"] == [] for each in told)


async def test_a_fault_of_our_own_is_told_as_one_and_settled(
    house: HouseFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    text = BODY["messages"][0]["content"]  # what a foreign message may quote

    def crashes(*_: object) -> None:
        raise ZeroDivisionError(text)

    monkeypatch.setattr("gateway.pipeline.decide", crashes)
    async with house() as h:
        for path in ("/v1/chat/completions", "/v1/route/explain"):
            response = await h.gateway.client.post(path, json=BODY)
            assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
            assert response.headers["x-request-id"] in caplog.text
        told = await h.until_settled(2)
        assert [each["outcome"] for each in told] == ["internal_error"] * 2
        logged = [each.trace_id for each in caplog.records if hasattr(each, "trace_id")]
        assert logged == [each["trace_id"] for each in told], "a line of the log leads to the trace"
        assert not h.gateway.app.admission.count
        assert text not in caplog.text

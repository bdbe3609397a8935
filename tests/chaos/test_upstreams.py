"""However an upstream misbehaves, the caller gets one clean answer or one clean error, and nothing is left running."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from routing_policies.snapshot import Health
from tests.chaos.acts import stream
from tests.chaos.faults import AFTER_CONTENT, BEFORE_CONTENT, HARMLESS, USAGE_VARIANTS, Fault, fine
from tests.gateway.conftest import House, HouseFactory
from tests.support.scripted_runtime import DONE_EVENT, USAGE, ScriptedRuntime, state
from tests.support.waiting import until

RESTRICTED = {"x-data-class": "restricted"}  # only the edge may answer


def named(faults: Any) -> Any:
    return pytest.mark.parametrize("fault", faults, ids=[fault.name.replace(" ", "-") for fault in faults])


def text_of(body: str) -> str:
    chunks = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:") and "[DONE]" not in line]
    choices = [choice for chunk in chunks for choice in chunk.get("choices", ())]
    return "".join(choice.get("delta", {}).get("content") or "" for choice in choices)


def errors_in(body: str) -> list[dict[str, Any]]:
    chunks = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data: {")]
    return [chunk["error"] for chunk in chunks if "error" in chunk]


async def until_quiet(h: House) -> None:
    """Wait until no place is held, here or at a target."""
    await until(lambda: not h.gateway.app.admission.count and not h.gateway.app.targets["edge"].in_flight)


@named(BEFORE_CONTENT)
async def test_a_caller_whom_nobody_else_may_answer_is_told_once_and_plainly(house: HouseFactory, fault: Fault) -> None:
    async with house(edge=ScriptedRuntime(fault.act), **fault.settings) as h:
        response = await h.gateway.chat(stream=fault.streams, headers=RESTRICTED)
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (fault.status, fault.code)
        assert error["request_id"] == response.headers["x-request-id"]
        assert response.status_code != 503 or int(response.headers["retry-after"]) >= 1
        assert not h.cloud.posts, "what may not leave has not left"
        await until_quiet(h)
        [outcome] = await h.until_settled(1)
        assert outcome["error"] == fault.code
        assert outcome["attempts"][-1]["outcome"] != "ok"


@named(BEFORE_CONTENT)
async def test_where_another_may_answer_the_caller_notices_nothing(house: HouseFactory, fault: Fault) -> None:
    async with house(edge=ScriptedRuntime(fault.act), cloud=ScriptedRuntime(fine), **fault.settings) as h:
        response = await h.gateway.chat(stream=fault.streams)
        assert response.status_code == 200
        assert response.headers["x-tidegate-target"] == "cloud"
        assert response.headers["x-tidegate-reason"] == f"fallback; from=edge; error={fault.code}"
        said = text_of(response.text) if fault.streams else response.json()["choices"][0]["message"]["content"]
        assert said == "fine"
        await until_quiet(h)


@named(AFTER_CONTENT)
async def test_an_answer_that_breaks_ends_with_one_error_and_is_asked_of_nobody_else(
    house: HouseFactory, fault: Fault
) -> None:
    async with house(edge=ScriptedRuntime(fault.act), cloud=ScriptedRuntime(fine), **fault.settings) as h:
        response = await h.gateway.chat(stream=True)
        assert response.status_code == fault.status
        assert text_of(response.text) == fault.text
        assert [error["code"] for error in errors_in(response.text)] == [fault.code]
        assert "[DONE]" not in response.text
        assert not h.cloud.posts
        await until_quiet(h)
        [outcome] = await h.until_settled(1)
        assert outcome["error"] == fault.code
        assert outcome["attempts"][0]["tokens"]["output"] >= 1, "what was used is accounted for"


@named(HARMLESS)
async def test_what_can_be_read_is_an_answer(house: HouseFactory, fault: Fault) -> None:
    async with house(edge=ScriptedRuntime(fault.act), **fault.settings) as h:
        response = await h.gateway.chat(stream=fault.streams, headers=RESTRICTED)
        assert response.status_code == 200
        if fault.streams:
            assert text_of(response.text) == fault.text
            assert not errors_in(response.text)
            assert response.text.count("[DONE]") == 1
        else:
            assert response.json()["choices"][0]["message"]["content"] == "fine"
            assert "content-encoding" not in response.headers
            assert int(response.headers["content-length"]) == len(response.content)
        assert [each["outcome"] for each in await h.until_settled(1)] == ["ok"]


@pytest.mark.parametrize("asked", [True, False], ids=["asked-for", "not-asked-for"])
@pytest.mark.parametrize("where", list(USAGE_VARIANTS))
async def test_a_caller_sees_the_counts_once_and_only_where_it_asked(
    house: HouseFactory, where: str, asked: bool
) -> None:
    edge = ScriptedRuntime(stream(*USAGE_VARIANTS[where], DONE_EVENT))
    async with house(edge=edge) as h:
        options = {"stream_options": {"include_usage": True}} if asked else {}
        response = await h.gateway.chat(stream=True, headers=RESTRICTED, **options)
        chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
        counted = [chunk for chunk in chunks if chunk.get("usage")]
        known = where != "nowhere"
        assert [(chunk["usage"], chunk["choices"]) for chunk in counted] == ([(USAGE, [])] if asked and known else [])
        if not asked:
            assert not [chunk for chunk in chunks if "usage" in chunk]
        assert text_of(response.text) == "a"
        [outcome] = await h.until_settled(1)
        assert outcome["tokens"] == ({"input": 7, "cached": 0, "output": 2} if known else {"output": 1})


async def test_a_redirect_is_followed_by_nobody(house: HouseFactory) -> None:
    async with ScriptedRuntime(fine) as elsewhere:

        async def redirects(request: Any) -> None:
            await request.json_answer(307, {}, f"location: {elsewhere.endpoint}/v1/chat/completions\r\n")

        async with house(edge=ScriptedRuntime(redirects)) as h:
            assert (await h.gateway.chat(headers=RESTRICTED)).status_code == 502
            assert not elsewhere.connections


async def test_a_target_out_of_order_is_left_alone_after_a_few_requests_and_asked_again_on_trial(
    house: HouseFactory,
) -> None:
    async def broken(request: Any) -> None:
        await request.json_answer(500, {"error": {"message": "broken"}})

    breaker = {"faults": 5, "open_s": 0.3}
    async with house(edge=ScriptedRuntime(broken), cloud=ScriptedRuntime(fine), breaker=breaker) as h:
        for _ in range(25):
            assert (await h.gateway.chat()).status_code == 200
        assert len(h.edge.posts) <= 7
        alone = await h.gateway.chat(headers=RESTRICTED)
        assert (alone.status_code, alone.json()["error"]["code"]) in {
            (503, "no_target_available"),
            (502, "upstream_refused"),
        }
        h.edge.answer = fine

        async def edge_answers() -> bool:
            return (await h.gateway.chat(headers=RESTRICTED)).status_code == 200

        await until(edge_answers)


async def test_a_schema_is_never_answered_with_prose(house: HouseFactory) -> None:
    async def broken(request: Any) -> None:
        await request.json_answer(500, {"error": {"message": "broken"}})

    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}
    async with house(edge=ScriptedRuntime(fine), cloud=ScriptedRuntime(broken)) as h:
        response: httpx.Response = await h.gateway.chat(response_format=schema)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "capability_unavailable")
        assert response.json()["error"]["param"] == "response_format"
        await h.edge.stop()
        await h.gateway.until_health(edge=Health.DOWN)
        response = await h.gateway.chat(response_format=schema)
        assert response.json()["error"]["code"] == "capability_unavailable", "and that does not change while it is down"
        assert not [*h.edge.posts, *h.cloud.posts]


async def test_private_data_that_is_too_long_for_this_device_stays_and_its_caller_is_told_why(
    house: HouseFactory,
) -> None:
    async def too_long(request: Any) -> None:
        message = "The input (9000 tokens) is longer than the model's context length (2048 tokens)."
        await request.json_answer(400, {"error": {"message": message, "code": 400}})

    async with house(edge=ScriptedRuntime(too_long), cloud=ScriptedRuntime(fine, state(window=131072))) as h:
        public = await h.gateway.chat()
        assert (public.status_code, public.headers["x-tidegate-target"]) == (200, "cloud")
        private = await h.gateway.chat(headers=RESTRICTED)
        error = private.json()["error"]
        assert (private.status_code, error["code"]) == (400, "context_length_exceeded")
        assert "`cloud` is cleared for" in error["message"]
        assert len(h.cloud.posts) == 1
        assert h.gateway.app.targets["edge"].health is Health.UP

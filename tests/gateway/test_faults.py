"""What the caller gets when a target misbehaves: one clean answer or one clean error."""

from __future__ import annotations

import asyncio
import json

import pytest

from routing_policies.snapshot import Health
from tests.gateway.conftest import HouseFactory
from tests.support.scripted_runtime import (
    DONE_EVENT,
    USAGE_EVENT,
    Answer,
    Received,
    ScriptedRuntime,
    event,
    says,
    state,
)
from tests.support.waiting import until

LONG = "word " * 800  # beyond a quarter of the edge window: the balanced policy sends it to the cloud


def text_of(stream: str) -> str:
    chunks = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c.get("choices"))


async def refuses_503(request: Received) -> None:
    await request.json_answer(503, {"error": {"message": "busy", "code": "overloaded"}})


async def cuts_before_the_head(request: Received) -> None:
    request.cut()


async def cuts_before_content(request: Received) -> None:
    await request.head()
    await request.chunk(event(role="assistant", content=""))
    request.cut()


async def ends_before_content(request: Received) -> None:
    await request.head()
    await request.chunk(b": ping\n\n")
    await request.end()


async def errors_before_content(request: Received) -> None:
    await request.head()
    await request.chunk(event(role="assistant"))
    await request.chunk(b'data: {"error": {"message": "out of quota", "code": "insufficient_quota"}}\n\n')
    await request.end()


async def answers_html(request: Received) -> None:
    await request.head(200, "text/html")
    await request.chunk(b"<html>Please log in</html>")
    await request.end()


async def redirects(request: Received) -> None:
    await request.json_answer(302, {}, "location: http://127.0.0.1:9/\r\n")


FAULTS_OF_ANY_ANSWER = [refuses_503, cuts_before_the_head, answers_html, redirects]
FAULTS_OF_STREAMS = [cuts_before_content, ends_before_content, errors_before_content]


@pytest.mark.parametrize(
    ("fault", "stream"),
    [
        *((fault, stream) for fault in FAULTS_OF_ANY_ANSWER for stream in (True, False)),
        *((fault, True) for fault in FAULTS_OF_STREAMS),
    ],
)
async def test_a_target_that_fails_before_content_is_replaced_within_the_same_request(
    house: HouseFactory, fault: Answer, stream: bool
) -> None:
    cloud = ScriptedRuntime(fault, state(window=8192))
    async with house(cloud=cloud, edge=ScriptedRuntime(says("from the edge"))) as h:
        response = await h.gateway.chat(LONG, stream=stream, max_tokens=8)
        assert h.cloud.posts, "the cloud was not even asked"
        assert response.status_code == 200
        assert response.headers["x-tidegate-target"] == "edge"
        assert response.headers["x-tidegate-reason"].startswith("fallback; from=cloud; error=")
        if stream:
            assert text_of(response.text) == "fromtheedge"
            assert response.text.endswith("data: [DONE]\n\n")
            assert response.text.count('"role"') == 1, "frames of the failed target reached the caller"
        else:
            assert response.json()["choices"][0]["message"]["content"] == "from the edge"


async def test_a_stream_that_breaks_after_content_ends_with_one_error_and_no_done(house: HouseFactory) -> None:
    async def breaks(request: Received) -> None:
        await request.head()
        await request.chunk(event(role="assistant", content="Hello wor"))
        request.cut()

    async with house(cloud=ScriptedRuntime(breaks, state(window=8192))) as h:
        response = await h.gateway.chat(LONG, stream=True, max_tokens=8)
        assert response.headers["x-tidegate-target"] == "cloud"
        frames = [f for f in response.text.split("\n\n") if f]
        assert text_of(response.text) == "Hello wor"
        error = json.loads(frames[-1].removeprefix("data: "))["error"]
        assert error["code"] == "upstream_cut"
        assert error["request_id"] == response.headers["x-request-id"]
        assert "[DONE]" not in response.text
        assert not h.edge.posts, "an answer that has begun must not be asked for again"


async def test_frames_before_an_error_event_in_the_same_packet_still_reach_the_caller(house: HouseFactory) -> None:
    committed = asyncio.Event()

    async def breaks(request: Received) -> None:
        await request.head()
        await request.chunk(event(content="one"))
        await committed.wait()
        await request.chunk(event(content="two") + b'data: {"error": {"message": "gone"}}\n\n')
        await request.end()

    async with house(edge=ScriptedRuntime(breaks)) as h:
        body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "stream": True}
        async with h.gateway.client.stream("POST", "/v1/chat/completions", json=body) as response:
            committed.set()
            text = (await response.aread()).decode()
        assert text_of(text) == "onetwo"
        assert "upstream_refused" in text
        assert "[DONE]" not in text


async def test_one_garbled_frame_among_good_ones_is_left_out(house: HouseFactory) -> None:
    async def garbles(request: Received) -> None:
        await request.head()
        await request.chunk(event(content="good"))
        await request.chunk(b'data: {"choices":[{"delta":\n\n')
        await request.chunk(event(content=" end"))
        await request.chunk(event(finish_reason="stop") + DONE_EVENT)
        await request.end()

    async with house(edge=ScriptedRuntime(garbles)) as h:
        response = await h.gateway.chat(stream=True)
        assert text_of(response.text) == "good end"
        assert response.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("cut", range(1, 60, 7))
async def test_a_stream_is_relayed_byte_for_byte_however_its_packets_fall(house: HouseFactory, cut: int) -> None:
    whole = event(content="北京🙂") + event(content="x") + event(finish_reason="stop") + DONE_EVENT

    async def dribbles(request: Received) -> None:
        await request.head()
        for start in range(0, len(whole), cut):
            await request.chunk(whole[start : start + cut])
        await request.end()

    async with house(edge=ScriptedRuntime(dribbles)) as h:
        response = await h.gateway.chat(stream=True, stream_options={"include_usage": True})
        assert response.content == whole


async def test_a_caller_sees_the_usage_frame_only_when_it_asked(house: HouseFactory) -> None:
    async with house() as h:
        without = await h.gateway.chat(stream=True)
        asked = await h.gateway.chat(stream=True, stream_options={"include_usage": True})
        assert USAGE_EVENT not in without.content
        assert asked.content.count(USAGE_EVENT) == 1
        assert h.edge.posts[0].json["stream_options"] == {"include_usage": True}, "needed for the account"


async def test_the_refusal_of_a_wrong_request_is_the_callers_and_is_not_tried_elsewhere(house: HouseFactory) -> None:
    async def refuses(request: Received) -> None:
        await request.json_answer(400, {"error": {"message": "temperature is too hot", "code": "bad"}})

    async with house(edge=ScriptedRuntime(refuses)) as h:
        response = await h.gateway.chat()
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "upstream_blamed_request"
        assert response.json()["error"]["details"] == {"upstream_status": 400}
        assert response.json()["error"]["message"] == "temperature is too hot"
        assert not h.cloud.posts


async def test_first_content_after_the_budget_is_a_504_at_the_budget(house: HouseFactory) -> None:
    async def never(request: Received) -> None:
        await request.head()
        await asyncio.Event().wait()

    async with house(edge=ScriptedRuntime(never), cloud=ScriptedRuntime(never)) as h:
        response = await h.gateway.chat(stream=True, headers={"x-ttft-budget-ms": "300"})
        assert response.status_code == 504
        assert response.json()["error"]["code"] == "deadline_exceeded"
        async with asyncio.timeout(2):
            await (h.edge.posts or h.cloud.posts)[0].gone.wait()


async def test_an_edge_that_is_down_sends_public_requests_to_the_cloud(house: HouseFactory) -> None:
    async with house(cloud=ScriptedRuntime(says("from the cloud"))) as h:
        await h.edge.stop()
        at_once = await h.gateway.chat()
        await h.gateway.until_health(edge=Health.DOWN)
        later = await h.gateway.chat()
        for response in (at_once, later):
            assert response.status_code == 200
            assert response.headers["x-tidegate-target"] == "cloud"


@pytest.mark.parametrize("noticed", [False, True])
async def test_a_restricted_request_with_the_edge_down_is_a_503_and_no_byte_reaches_the_cloud(
    house: HouseFactory, noticed: bool
) -> None:
    async with house() as h:
        await h.edge.stop()
        if noticed:
            await h.gateway.until_health(edge=Health.DOWN)
        response = await h.gateway.chat(headers={"x-data-class": "restricted"})
        assert response.status_code == 503
        error = response.json()["error"]
        assert error["code"] == "no_target_available"
        assert "restricted" in error["message"]
        assert "edge" in error["message"]
        assert int(response.headers["retry-after"]) >= 1
        assert not h.cloud.posts


async def test_routing_recovers_when_the_edge_comes_back(house: HouseFactory) -> None:
    async with house() as h:
        await h.edge.stop()
        await h.gateway.until_health(edge=Health.DOWN)
        await h.edge.start()
        await h.gateway.until_health(edge=Health.UP)
        response = await h.gateway.chat(headers={"x-data-class": "restricted"})
        assert response.status_code == 200


async def test_a_tight_budget_goes_to_whichever_side_is_predicted_faster(house: HouseFactory) -> None:
    slow, fast = state(ms_per_token=200, prefill_tokens_per_s=20), state(ms_per_token=5, prefill_tokens_per_s=4000)
    async with house(edge=ScriptedRuntime(report=slow), cloud=ScriptedRuntime(report=fast)) as h:
        response = await h.gateway.chat(headers={"x-latency-budget-ms": "900"}, max_tokens=16)
        assert response.headers["x-tidegate-target"] == "cloud"
        h.edge.report, h.cloud.report = fast, slow
        targets = h.gateway.app.targets
        await until(lambda: targets["edge"].state == fast and targets["cloud"].state == slow)
        response = await h.gateway.chat(headers={"x-latency-budget-ms": "900"}, max_tokens=16)
        assert response.headers["x-tidegate-target"] == "edge"


async def test_an_error_head_followed_by_silence_is_replaced_all_the_same(house: HouseFactory) -> None:
    async def stalls(request: Received) -> None:
        await request.head(500, "application/json")
        await request.chunk(b'{"error":')
        await asyncio.Event().wait()

    async with house(edge=ScriptedRuntime(stalls)) as h:
        response = await h.gateway.chat()
        assert (response.status_code, response.headers["x-tidegate-target"]) == (200, "cloud")


async def test_a_target_that_keeps_silent_without_a_budget_is_replaced(house: HouseFactory) -> None:
    async def never(request: Received) -> None:
        await asyncio.Event().wait()

    async with house(edge=ScriptedRuntime(never), timeouts={"first_content_s": 0.3}) as h:
        response = await h.gateway.chat(stream=True)
        assert response.headers["x-tidegate-reason"] == "fallback; from=edge; error=upstream_timed_out"


@pytest.mark.parametrize(
    "ending",
    [
        b"data: [DONE]",
        b"data: [DONE]\n",
        b"data: [DONE]\n\ndata: [DONE]\n\n",
        DONE_EVENT + event(content="AFTER"),
        DONE_EVENT + b'data: {"error": {"message": "late"}}\n\n',
        b"",
    ],
)
async def test_a_whole_answer_ends_with_one_done_whatever_its_target_makes_of_the_end(
    house: HouseFactory, ending: bytes
) -> None:
    async def ends(request: Received) -> None:
        await request.head()
        await request.chunk(event(content="all"))
        await request.chunk(event(finish_reason="stop") + ending)
        await request.end()

    async with house(edge=ScriptedRuntime(ends)) as h:
        response = await h.gateway.chat(stream=True)
        assert response.content == event(content="all") + event(finish_reason="stop") + DONE_EVENT


async def test_an_end_without_content_is_no_answer(house: HouseFactory) -> None:
    async def ends(request: Received) -> None:
        await request.head()
        await request.chunk(event(role="assistant") + DONE_EVENT)
        await request.end()

    async with house(edge=ScriptedRuntime(ends)) as h:
        response = await h.gateway.chat(stream=True)
        assert response.headers["x-tidegate-target"] == "cloud"


async def test_a_path_that_a_target_does_not_have_is_not_the_callers_fault(house: HouseFactory) -> None:
    async def missing(request: Received) -> None:
        await request.json_answer(404, {"detail": "Not Found"})

    async with house(edge=ScriptedRuntime(missing)) as h:
        assert (await h.gateway.chat()).headers["x-tidegate-target"] == "cloud"


async def test_a_finish_reason_that_is_no_word_of_the_protocol_stays_out_of_the_records(house: HouseFactory) -> None:
    async def says_much(request: Received) -> None:
        await request.head()
        await request.chunk(event(content="x", finish_reason="My secret is 42"))
        await request.chunk(DONE_EVENT)
        await request.end()

    async with house(edge=ScriptedRuntime(says_much)) as h:
        await h.gateway.chat(stream=True)
        records = h.gateway.state_dir / "records" / "requests.jsonl"
        assert "My secret" not in records.read_text(encoding="utf-8")


async def test_a_connection_that_a_target_closed_meanwhile_is_made_anew(house: HouseFactory) -> None:
    async def then_closes(request: Received) -> None:
        await says("scripted")(request)
        request.writer.close()

    async with house(edge=ScriptedRuntime(then_closes)) as h:
        for _ in range(3):
            response = await h.gateway.chat(headers={"x-data-class": "restricted"})
            assert response.status_code == 200
        assert len(h.edge.posts) == 3

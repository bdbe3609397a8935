"""`x-on-disconnect: finish`, over sockets: what was begun is finished without its caller, kept, resumed, stopped."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect
from starlette.types import Message

from gateway.kept.answer import KeptAnswer
from gateway.kept.answers import KeptAnswers, Owner
from gateway.kept.delivery import Delivery
from gateway.kept_settings import DetachedSettings
from gateway.state.keys import Keys
from gateway.state.sealing import Sealer
from inference_protocol.errors import AnswerGone, UnknownRequest
from inference_protocol.sse import SseDecoder, SseFrame
from tests.gateway.conftest import House, HouseFactory
from tests.support.scripted_runtime import DONE_EVENT, Received, ScriptedRuntime, event
from tests.support.waiting import until

MAY = {"local_may": ["finish"]}
FINISH = {"x-on-disconnect": "finish"}
RESTRICTED = {"x-data-class": "restricted"}
WORDS = [f"word{n}" for n in range(12)]


class Paced:
    """An answer that goes on word by word, as the test lets it."""

    def __init__(self) -> None:
        self.steps = asyncio.Semaphore(0)
        self.finished = asyncio.Event()

    async def __call__(self, request: Received) -> None:
        await request.head()
        await request.chunk(event(role="assistant", content=""))
        for word in WORDS:
            await self.steps.acquire()
            await request.chunk(event(content=word))
        await request.chunk(event(finish_reason="stop"))
        await request.chunk(DONE_EVENT)
        await request.end()
        self.finished.set()

    def go(self, steps: int = len(WORDS)) -> None:
        for _ in range(steps):
            self.steps.release()


async def hang_up_after(h: House, words: int, paced: Paced, **headers: str) -> tuple[str, list[SseFrame]]:
    """Ask for a stream, take so many words of it, and hang up."""
    body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    frames: list[SseFrame] = []
    decoder = SseDecoder()
    paced.go(words)
    sent = {**FINISH, **RESTRICTED, **headers}
    async with h.gateway.client.stream("POST", "/v1/chat/completions", json=body, headers=sent) as response:
        assert response.status_code == 200, await response.aread()
        async for chunk in response.aiter_raw():
            frames += decoder.feed(chunk)
            if f"word{words - 1}".encode() in frames[-1].raw:
                break
        return response.headers["x-request-id"], frames


def ids(frames: list[SseFrame]) -> list[int]:
    return [int(frame.raw.split(b"\n", 1)[0].removeprefix(b"id: ")) for frame in frames]


def words_of(frames: list[SseFrame]) -> list[str]:
    return [word for frame in frames for word in WORDS if f'"{word}"'.encode() in frame.raw]


def frames_of(content: bytes) -> list[SseFrame]:
    return SseDecoder().feed(content)


async def status(h: House, request_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await h.gateway.client.get(f"/v1/requests/{request_id}")).json()
    return found


async def kept_status(h: House) -> dict[str, int]:
    """What the status page of operators says of what is kept."""
    transport = httpx.ASGITransport(h.gateway.app.admin)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        found: dict[str, int] = (await client.get("/status")).json()["kept"]
        assert f"tidegate_kept_running {found['running']}" in (await client.get("/metrics")).text
        return found


async def resumed(h: House, request_id: str, after: int | None = None) -> httpx.Response:
    headers = {} if after is None else {"last-event-id": str(after)}
    return await h.gateway.client.get(f"/v1/requests/{request_id}/stream", headers=headers)


async def test_an_answer_is_finished_without_its_caller_and_resumed_from_the_next_event(house: HouseFactory) -> None:
    paced = Paced()
    async with house(edge=ScriptedRuntime(paced), auth=MAY) as h:
        request_id, seen = await hang_up_after(h, 4, paced)
        assert (await status(h, request_id))["status"] == "running"
        assert h.gateway.app.admission.count == 1, "it holds its place while it is made"
        assert (await kept_status(h))["running"] == 1
        paced.go()
        await paced.finished.wait()
        [outcome] = await h.until_settled(1)
        assert outcome["outcome"] == "finished_detached"
        assert outcome["attempts"][0]["outcome"] == "ok"
        assert (await status(h, request_id))["status"] == "done"
        rest = await resumed(h, request_id, ids(seen)[-1])
        frames = seen + frames_of(rest.content)
        assert ids(frames) == list(range(1, len(frames) + 1))
        assert words_of(frames) == WORDS
        assert frames[-1].is_done
        assert (await resumed(h, request_id, len(frames))).status_code == 204
        await until(lambda: h.gateway.app.admission.count == 0)
        assert (await kept_status(h))["running"] == 0
        assert all(replica.in_flight == 0 for target in h.gateway.app.targets for replica in target.pool)


async def test_who_comes_back_early_is_sent_the_rest_as_it_comes(house: HouseFactory) -> None:
    paced = Paced()
    async with house(edge=ScriptedRuntime(paced), auth=MAY) as h:
        request_id, seen = await hang_up_after(h, 3, paced)
        readers = [asyncio.create_task(resumed(h, request_id, after)) for after in (None, ids(seen)[-1])]
        paced.go()
        whole, rest = [frames_of((await reader).content) for reader in readers]
        assert words_of(whole) == WORDS
        assert words_of(seen + rest) == WORDS


async def test_without_the_header_frames_pass_byte_for_byte_and_a_hang_up_stops_the_target(house: HouseFactory) -> None:
    paced = Paced()
    async with house(edge=ScriptedRuntime(paced), auth=MAY) as h:
        _, seen = await hang_up_after(h, 2, paced, **{"x-on-disconnect": "stop"})
        assert seen[1].raw == event(content="word0")
        await until(h.edge.posts[0].gone.is_set)
        [outcome] = await h.until_settled(1)
        assert outcome["outcome"] == "client_closed"


async def test_a_caller_who_stays_gets_the_whole_and_the_outcome_is_ok(house: HouseFactory) -> None:
    async with house(auth=MAY) as h:
        streamed = await h.gateway.chat(stream=True, headers=FINISH)
        assert frames_of(streamed.content)[-1].is_done
        whole = await h.gateway.chat(headers=FINISH)
        assert whole.json()["choices"][0]["message"]["content"] == "scripted"
        assert [each["outcome"] for each in await h.until_settled(2)] == ["ok", "ok"]
        again = await h.gateway.client.get(f"/v1/requests/{whole.headers['x-request-id']}/answer")
        assert again.content == whole.content
        assert (await resumed(h, whole.headers["x-request-id"])).status_code == 400


async def test_delete_stops_the_target_and_forgets_the_answer(house: HouseFactory) -> None:
    paced = Paced()
    async with house(edge=ScriptedRuntime(paced), auth=MAY) as h:
        request_id, _ = await hang_up_after(h, 2, paced)
        assert (await h.gateway.client.delete(f"/v1/requests/{request_id}")).status_code == 204
        await until(h.edge.posts[0].gone.is_set)
        [outcome] = await h.until_settled(1)
        assert outcome["outcome"] == "client_closed"
        assert (await resumed(h, request_id)).status_code == 404
        await until(lambda: h.gateway.app.admission.count == 0)


async def test_a_caller_who_still_reads_is_told_that_the_answer_was_stopped(house: HouseFactory) -> None:
    paced = Paced()
    async with house(edge=ScriptedRuntime(paced), auth=MAY) as h:
        paced.go(1)
        asking = asyncio.create_task(h.gateway.chat(stream=True, headers={**FINISH, **RESTRICTED}))
        await until(lambda: bool(h.gateway.app.kept.answers.running_ids()))
        [request_id] = h.gateway.app.kept.answers.running_ids()
        await until(lambda: h.gateway.app.kept.answers.bytes > 0)
        await h.gateway.client.delete(f"/v1/requests/{request_id}")
        last = frames_of((await asking).content)[-1]
        assert b'"reason":"stopped"' in last.raw


async def test_a_request_that_nobody_answers_is_an_error_as_ever(house: HouseFactory) -> None:
    async with house(auth=MAY) as h:
        await h.edge.stop()
        found = await h.gateway.chat(headers={**FINISH, **RESTRICTED})
        assert found.status_code == 503
        assert (await status(h, found.headers["x-request-id"]))["status"] == "failed"
        [outcome] = await h.until_settled(1)
        assert outcome["outcome"] == "unavailable"


async def test_who_may_not_is_told_which_setting_says_so(house: HouseFactory) -> None:
    async with house() as h:
        found = await h.gateway.chat(headers=FINISH)
        assert found.status_code == 403
        assert "auth.local_may" in found.json()["error"]["message"]
        assert (await h.gateway.chat(headers={"x-on-disconnect": "perhaps"})).status_code == 400


def key(name: str, **fields: Any) -> dict[str, Any]:
    digest = hashlib.sha256(b"secret").hexdigest()
    return {"id": name, "secret_sha256": digest, "tenant": "acme", "may": ["finish"], **fields}


async def test_nobody_else_learns_of_a_kept_answer(house: HouseFactory) -> None:
    keys = [key("mine"), key("same-tenant"), key("other-tenant", tenant="else")]
    async with house(auth={"keys": keys}) as h:
        mine = {"authorization": "Bearer mine.secret"}
        request_id = (await h.gateway.chat(headers={**FINISH, **mine})).headers["x-request-id"]
        for name in ("same-tenant", "other-tenant"):
            other = {"authorization": f"Bearer {name}.secret"}
            for method, path in (("GET", ""), ("GET", "/answer"), ("GET", "/stream"), ("DELETE", "")):
                found = await h.gateway.client.request(method, f"/v1/requests/{request_id}{path}", headers=other)
                assert (found.status_code, found.json()["error"]["code"]) == (404, "request_not_found")
        assert (await h.gateway.client.get(f"/v1/requests/{request_id}")).status_code == 401
        assert (await h.gateway.client.get(f"/v1/requests/{request_id}/answer", headers=mine)).status_code == 200


async def test_an_answer_past_its_bound_ends_with_an_error_and_what_was_kept_stays(house: HouseFactory) -> None:
    paced = Paced()
    async with house(edge=ScriptedRuntime(paced), auth=MAY, detached={"answer_bytes": 1000}) as h:
        request_id, _ = await hang_up_after(h, 2, paced)
        paced.go(len(WORDS) - 4)
        await until(h.edge.posts[0].gone.is_set)
        await h.until_settled(1)
        frames = frames_of((await resumed(h, request_id)).content)
        assert words_of(frames) == WORDS[: len(words_of(frames))]
        assert b'"reason":"evicted-answer-bytes"' in frames[-1].raw
        assert (await status(h, request_id))["status"] == "failed"


async def test_the_oldest_finished_answers_make_room(house: HouseFactory) -> None:
    async with house(auth=MAY, detached={"total_bytes": 700}) as h:
        asked = [(await h.gateway.chat(headers=FINISH)).headers["x-request-id"] for _ in range(5)]
        found = [await h.gateway.client.get(f"/v1/requests/{each}") for each in asked]
        statuses = [each.status_code for each in found]
        assert statuses == sorted(statuses, reverse=True)
        assert set(statuses) == {410, 200}
        assert found[0].json()["error"]["details"]["reason"] == "evicted-total-bytes"
        assert h.gateway.app.kept.answers.bytes <= 700


@pytest.mark.parametrize("event_id", ["x", "-1", "99", "1.5", "9" * 30])
async def test_an_id_that_no_event_has_is_refused(house: HouseFactory, event_id: str) -> None:
    async with house(auth=MAY) as h:
        asked = await h.gateway.chat(stream=True, headers=FINISH)
        url = f"/v1/requests/{asked.headers['x-request-id']}/stream"
        found = await h.gateway.client.get(url, headers={"last-event-id": event_id})
        assert found.status_code == 400
        assert found.json()["error"]["param"] == "last-event-id"


STREAM = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
FRAMES = st.lists(
    st.sampled_from([event(content="a"), b"id: 999\ndata: x\n\n", b": ping\n\n", b"event: e\r\ndata: 1\r\n\r\n"]),
    min_size=1,
    max_size=12,
)


@given(frames=FRAMES, data=st.data())
@settings(max_examples=60)
def test_any_cut_and_any_chunks_give_the_whole_stream(frames: list[bytes], data: st.DataObject) -> None:
    async def check() -> None:
        answer = KeptAnswer(Sealer(Keys(b"k" * 32), "acme", "req-1"))
        await answer.send(STREAM)
        raw, at = b"".join(frames), 0
        while at < len(raw):
            size = data.draw(st.integers(1, len(raw) - at))
            await answer.send({"type": "http.response.body", "body": raw[at : at + size], "more_body": True})
            at += size
        answer.close()
        whole = [piece async for piece in answer.read(0, 1.0)]
        cut = data.draw(st.integers(0, answer.pieces))
        assert whole[:cut] + [piece async for piece in answer.read(cut, 1.0)] == whole
        assert [ids(frames_of(piece))[0] for piece in whole if piece] == list(range(1, len(whole) + 1))
        expected = [frame.data for frame in frames_of(raw) if frame.data is not None]
        assert [frames_of(piece)[0].data for piece in whole if piece] == expected
        again = KeptAnswer.from_bytes(answer.to_bytes(), Sealer(Keys(b"k" * 32), "acme", "req-1"))
        assert [piece async for piece in again.read(0, 1.0)] == whole

    asyncio.run(check())


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_finished_answer_is_dropped_after_its_time_and_its_owner_is_told_why() -> None:
    clock = Clock()
    answers = KeptAnswers(DetachedSettings(kept_s=60), Keys(b"k" * 32), clock=clock)
    me, other = Owner("acme", "mine"), Owner("acme", "other")
    kept = answers.open("req-1", me)
    await kept.answer.send(STREAM)
    await kept.answer.send({"type": "http.response.body", "body": event(content="a")})
    clock.now += 1000
    assert answers.find("req-1", me) is kept, "one that is being made does not age"
    answers.close(kept, failed=False)
    clock.now += 59
    assert answers.find("req-1", me) is kept
    clock.now += 1
    with pytest.raises(AnswerGone) as gone:
        answers.find("req-1", me)
    assert gone.value.details == {"reason": "evicted-age"}
    with pytest.raises(UnknownRequest):
        answers.find("req-1", other)
    assert answers.to_json() == {"running": 0, "answers": 0, "bytes": 0}


async def test_a_reader_who_takes_nothing_is_given_up_and_holds_nobody_else() -> None:
    answer = KeptAnswer(Sealer(Keys(b"k" * 32), "acme", "req-1"))
    await answer.send(STREAM)
    await answer.send({"type": "http.response.body", "body": event(content="a")})

    async def never(_: Message) -> None:
        await asyncio.Event().wait()

    delivery = Delivery(reader_s=0.05, ping_s=60)
    with pytest.raises(ClientDisconnect):
        await delivery.deliver(answer, never)
    await answer.send({"type": "http.response.body", "body": event(content="b")})
    answer.close()
    got: list[Message] = []

    async def takes(message: Message) -> None:
        got.append(message)

    await delivery.deliver(answer, takes, after=1)
    assert [message["body"] for message in got[1:]] == [b"id: 2\n" + event(content="b"), b""]


async def test_the_reader_of_a_silent_stream_is_sent_comments() -> None:
    answer = KeptAnswer(Sealer(Keys(b"k" * 32), "acme", "req-1"))
    await answer.send(STREAM)
    pings: list[bytes] = []

    async def takes(message: Message) -> None:
        if message.get("body"):
            pings.append(message["body"])
            answer.close()

    await Delivery(reader_s=60, ping_s=0.02).deliver(answer, takes)
    assert pings == [b": ping\n\n"]

"""Deferrable requests, over sockets: put off while nobody can answer, decided again and answered later, picked up."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.kept.answer import KeptAnswer
from gateway.kept.answers import Owner
from gateway.kept.outbox import Content, Outbox
from gateway.kept.outbox_file import OVER, OutboxFile, Row, State
from gateway.kept_settings import OutboxSettings
from gateway.state.keys import Keys
from gateway.state.sealing import Sealer
from inference_protocol.errors import IdempotencyKeyReused, Overloaded
from routing_policies.policy.loader import load_text
from routing_policies.signals.label import NOTHING, Component, DataClass
from routing_policies.snapshot import Health
from tests.gateway.conftest import House, HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, event, says
from tests.support.waiting import until

MAY = {"local_may": ["defer", "finish"]}
FAST = {"flush_per_s": 50.0}
RESTRICTED = {"x-data-class": "restricted"}


async def defer(h: House, text: str = "hello", **headers: str) -> httpx.Response:
    return await h.gateway.chat(text, headers={**RESTRICTED, **headers}, deferrable=True)


async def down(h: House) -> None:
    await h.edge.stop()
    await h.gateway.until_health(edge=Health.DOWN)


async def status(h: House, request_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await h.gateway.client.get(f"/v1/requests/{request_id}")).json()
    return found


async def until_status(h: House, request_id: str, wanted: str) -> dict[str, Any]:
    async def is_so() -> bool:
        return (await status(h, request_id)).get("status") == wanted

    await until(is_so)
    return await status(h, request_id)


async def answer(h: House, request_id: str) -> httpx.Response:
    return await h.gateway.client.get(f"/v1/requests/{request_id}/answer")


async def test_a_request_that_nobody_can_answer_is_answered_once_somebody_can(house: HouseFactory) -> None:
    async with house(auth=MAY, outbox=FAST) as h:
        await down(h)
        first, second = await defer(h, "one"), await defer(h, "two")
        assert (first.status_code, second.status_code) == (202, 202)
        told = second.json()
        assert (told["status"], told["position"]) == ("queued", 2)
        assert second.headers["location"] == told["status_url"] == f"/v1/requests/{told['id']}"
        assert (await answer(h, told["id"])).status_code == 409
        await h.edge.start()
        done = await until_status(h, told["id"], "done")
        await until_status(h, first.json()["id"], "done")
        found = await answer(h, told["id"])
        assert found.json()["choices"][0]["message"]["content"] == "scripted"
        assert found.headers["x-tidegate-target"] == "edge"
        assert [post.json["messages"][0]["content"] for post in h.edge.posts] == ["one", "two"]
        assert all("deferrable" not in post.json for post in h.edge.posts)
        outcomes = await h.until_settled(4)
        assert [each["outcome"] for each in outcomes] == ["deferred", "deferred", "ok", "ok"]
        assert outcomes[3]["request_id"] == done["run"]
        assert outcomes[3]["deferred_id"] == told["id"]
        assert h.gateway.app.admission.count == 0


async def test_a_request_that_can_be_answered_is_answered_at_once(house: HouseFactory) -> None:
    async with house(auth=MAY) as h:
        found = await defer(h)
        assert found.status_code == 200
        assert h.edge.posts
        assert "deferrable" not in h.edge.posts[0].json


async def test_a_stream_is_picked_up_as_a_stream_from_any_event_on(house: HouseFactory) -> None:
    async with house(auth=MAY, outbox=FAST) as h:
        await down(h)
        asked = await h.gateway.chat(headers=RESTRICTED, deferrable=True, stream=True)
        request_id = asked.json()["id"]
        await h.edge.start()
        await until_status(h, request_id, "done")
        url = f"/v1/requests/{request_id}/stream"
        whole = (await h.gateway.client.get(url)).content
        assert b'"scripted"' in whole
        assert whole.endswith(b"data: [DONE]\n\n")
        rest = (await h.gateway.client.get(url, headers={"last-event-id": "2"})).content
        assert rest.startswith(b"id: 3\n")
        assert whole.endswith(rest)


async def test_who_may_not_defer_is_told_which_setting_says_so(house: HouseFactory) -> None:
    async with house() as h:
        found = await defer(h)
        assert found.status_code == 403
        assert found.json()["error"]["param"] == "deferrable"
        assert not (h.gateway.state_dir / "state" / "outbox.sqlite").exists()


async def test_the_same_key_is_the_same_request_also_when_it_could_be_answered_by_now(house: HouseFactory) -> None:
    async with house(auth=MAY, outbox=FAST) as h:
        await down(h)
        key = {"idempotency-key": '"a-1"'}
        first = await defer(h, **key)
        again = await defer(h, **{"idempotency-key": "a-1"})
        assert first.json()["id"] == again.json()["id"]
        assert again.status_code == 202
        other = await defer(h, "something else", **key)
        assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")
        assert (await defer(h, **{"idempotency-key": 'a"b'})).status_code == 400
        await h.edge.start()
        await until_status(h, first.json()["id"], "done")
        late = await defer(h, **key)
        assert (late.status_code, late.json()["status"]) == (202, "done")
        assert len(h.edge.posts) == 1, "it was sent once"


async def test_it_is_decided_again_by_the_policy_in_force_and_its_label_is_not_lowered(
    house: HouseFactory,
) -> None:
    text = """
apiVersion: tidegate/v1
name: first
defaults: {class: public}
targets:
  cloud: {kind: cloud, clearance: internal}
  edge:  {kind: edge, clearance: restricted}
"""
    async with house(auth=MAY, outbox=FAST, loaded=load_text(text, "first.yaml")) as h:
        await down(h)
        turn = {"role": "user", "content": "The minutes."}
        body = {"model": "auto", "messages": [turn], "deferrable": True}
        kept = await h.gateway.client.post("/v1/chat/completions", json=body, headers=RESTRICTED)
        assert kept.status_code == 202
        later = [turn, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And?"}]
        tainted = await h.gateway.client.post("/v1/chat/completions", json={**body, "messages": later})
        assert tainted.status_code == 202, "it inherits the label of the turn that was put off"
        await h.edge.start()
        for response in (kept, tainted):
            await until_status(h, response.json()["id"], "done")
            assert (await answer(h, response.json()["id"])).headers["x-tidegate-label"] == "restricted"
        assert not h.cloud.posts


async def test_what_fails_for_good_says_so_and_is_not_sent_again(house: HouseFactory) -> None:
    async def blames(request: Received) -> None:
        await request.json_answer(400, {"error": {"message": "no"}})

    async with house(auth=MAY, outbox=FAST, edge=ScriptedRuntime(blames)) as h:
        await down(h)
        request_id = (await defer(h)).json()["id"]
        await h.edge.start()
        failed = await until_status(h, request_id, "failed")
        assert failed["reason"] == "upstream_blamed_request"
        found = await answer(h, request_id)
        assert (found.status_code, found.json()["error"]["code"]) == (400, "upstream_blamed_request")
        assert len(h.edge.posts) == 1


async def test_a_target_that_is_busy_is_asked_again_later(house: HouseFactory) -> None:
    tries: list[int] = []

    async def busy_once(request: Received) -> None:
        tries.append(1)
        if len(tries) == 1:
            await request.json_answer(429, {"error": {"message": "busy"}}, extra="retry-after: 60\r\n")
        else:
            await says("now")(request)

    async with house(auth=MAY, outbox=FAST, edge=ScriptedRuntime(busy_once), attempts={"longest_rest_s": 0.2}) as h:
        await down(h)
        request_id = (await defer(h)).json()["id"]
        await h.edge.start()
        await until_status(h, request_id, "done")
        assert "now" in (await answer(h, request_id)).text


async def test_delete_takes_a_waiting_request_out_and_stops_one_that_runs(house: HouseFactory) -> None:
    async def begins(request: Received) -> None:
        await request.head()
        await request.chunk(event(content="begun"))
        await asyncio.sleep(60)

    async with house(auth=MAY, outbox=FAST, edge=ScriptedRuntime(begins)) as h:
        await down(h)
        waiting = (await defer(h)).json()["id"]
        assert (await h.gateway.client.delete(f"/v1/requests/{waiting}")).status_code == 204
        assert (await h.gateway.client.get(f"/v1/requests/{waiting}")).status_code == 404
        body = {"stream": True, "deferrable": True}
        running = (await h.gateway.chat(headers=RESTRICTED, **body)).json()["id"]
        await h.edge.start()
        await until_status(h, running, "running")
        await until(lambda: bool(h.edge.posts))
        assert (await h.gateway.client.delete(f"/v1/requests/{running}")).status_code == 204
        await until(h.edge.posts[0].gone.is_set)
        assert (await h.gateway.client.get(f"/v1/requests/{running}")).status_code == 404
        await until(lambda: h.gateway.app.admission.count == 0)
        assert len(h.edge.posts) == 1


async def is_offline(h: House) -> bool:
    body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
    return '"offline"' in (await h.gateway.client.post("/v1/route/explain", json=body)).text


async def test_offline_it_waits_for_who_is_elsewhere_and_what_must_stay_is_answered_here(house: HouseFactory) -> None:
    async with house(auth=MAY, outbox=FAST) as h:
        await h.cloud.stop()
        await until(lambda: is_offline(h))
        public = await h.gateway.chat(deferrable=True)
        assert public.status_code == 202
        assert (await defer(h)).headers["x-tidegate-target"] == "edge"
        assert (await h.gateway.chat()).status_code == 200
        assert (await status(h, public.json()["id"]))["status"] == "queued"
        await h.cloud.start()
        await until_status(h, public.json()["id"], "done")


NOWHERE = """
apiVersion: tidegate/v1
name: nowhere
defaults: {class: public}
targets:
  cloud: {kind: cloud, clearance: internal}
  edge:  {kind: edge, clearance: internal}
"""


async def put_in(
    h: House, request_id: str, owner: Owner, *, key: Component = NOTHING, taint: Component = NOTHING, **fields: str
) -> str:
    """Put a request in the outbox as if it had been taken in under other settings; return why it failed, if it did."""
    outbox = h.gateway.app.kept.outbox
    assert outbox is not None
    raw = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "hello"}], "deferrable": True})
    content = Content(raw.encode(), fields, key, taint)
    await outbox.add(request_id, owner, "/v1/chat/completions", content, None, waits_for="gone", trace="")
    await until(lambda: outbox.queued == 0)

    async def is_over() -> bool:
        row = await outbox.find(request_id)
        return row is not None and row.state in OVER

    await until(is_over)
    row = await outbox.find(request_id)
    assert row is not None
    return row.reason


async def test_at_its_turn_the_policy_and_the_keys_of_then_decide(house: HouseFactory) -> None:
    async with house(auth=MAY, outbox=FAST, loaded=load_text(NOWHERE, "nowhere.yaml")) as h:
        local = Owner("local", "local")
        assert await put_in(h, "req-1", local, **RESTRICTED) == "policy_refused"
        assert await put_in(h, "req-2", Owner("acme", "gone")) == "authentication_failed"
        assert not h.edge.posts + h.cloud.posts
        assert await put_in(h, "req-3", local) == ""
        assert (await answer(h, "req-1")).status_code == 403


@pytest.mark.parametrize("kept_as", ["key", "taint"])
async def test_what_its_key_and_its_conversation_were_labelled_then_still_counts(
    house: HouseFactory, kept_as: str
) -> None:
    then: Any = {kept_as: Component(DataClass.RESTRICTED, frozenset({"board"}))}
    async with house(auth=MAY, outbox=FAST, loaded=load_text(NOWHERE, "nowhere.yaml")) as h:
        assert await put_in(h, "req-1", Owner("local", "local"), **then) == "policy_refused"
        assert not h.edge.posts + h.cloud.posts
        [outcome] = await h.until_settled(1)
        assert outcome["deferred_id"] == "req-1"


async def test_nobody_else_learns_of_a_request_that_waits(house: HouseFactory) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    keys = [{"id": name, "secret_sha256": digest, "tenant": "acme", "may": ["defer"]} for name in ("mine", "other")]
    async with house(auth={"keys": keys}) as h:
        await down(h)
        mine, other = ({"authorization": f"Bearer {name}.secret"} for name in ("mine", "other"))
        asked = await defer(h, **mine, **{"idempotency-key": "k"})
        for method, path in (("GET", ""), ("GET", "/answer"), ("GET", "/stream"), ("DELETE", "")):
            found = await h.gateway.client.request(method, asked.json()["status_url"] + path, headers=other)
            assert (found.status_code, found.json()["error"]["code"]) == (404, "request_not_found")
        again = await defer(h, **other, **{"idempotency-key": "k"})
        assert again.json()["id"] != asked.json()["id"], "an idempotency key is its caller's own"


async def test_an_outbox_that_cannot_be_written_refuses_and_goes_on_once_it_can(
    house: HouseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise sqlite3.OperationalError("database or disk is full")

    async with house(auth=MAY, outbox=FAST) as h:
        await down(h)
        with monkeypatch.context() as broken:
            broken.setattr(OutboxFile, "add", full)
            refused = await defer(h)
            assert refused.status_code == 503
            assert refused.json()["error"]["details"]["reason"] == "rejected-outbox-failed"
            assert refused.headers["retry-after"]
        request_id = (await defer(h)).json()["id"]
        await h.edge.start()
        await until_status(h, request_id, "done")


# Of the outbox alone, with a clock of the test's own.


class Wall:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


ME = Owner("acme", "mine")
CONTENT = Content(b'{"x": "secret words"}', {"x-data-class": "internal"}, Component(DataClass.INTERNAL), NOTHING)


def opened(folder: Path, wall: Wall, **settings: Any) -> Outbox:
    return Outbox(folder / "state" / "outbox.sqlite", OutboxSettings(**settings), Keys(b"k" * 32), wall=wall)


async def add(outbox: Outbox, request_id: str, content: Content = CONTENT, key: str | None = None) -> Row:
    return await outbox.add(request_id, ME, "/v1/chat/completions", content, key, waits_for="edge", trace="")


async def test_what_waits_too_long_expires_is_told_of_and_then_forgotten(tmp_path: Path) -> None:
    wall = Wall()
    outbox = opened(tmp_path, wall, age_s=100, answer_s=50)
    row = await add(outbox, "req-1")
    wall.now += 99
    assert await outbox.content(row) == CONTENT
    wall.now += 1
    found = await outbox.find("req-1", ME)
    assert found is not None
    assert (found.state, found.reason, outbox.queued) == (State.EXPIRED, "evicted-age", 0)
    assert await outbox.content(row) is None
    wall.now += 50
    assert await outbox.find("req-1", ME) is None
    outbox.close()


async def test_its_bounds_hold_and_what_was_taken_in_stays(tmp_path: Path) -> None:
    outbox = opened(tmp_path, Wall(), requests=2)
    rows = [await add(outbox, f"req-{n}") for n in range(2)]
    with pytest.raises(Overloaded) as refused:
        await add(outbox, "req-2")
    assert refused.value.details == {"reason": "rejected-outbox-full"}
    assert [await outbox.content(row) for row in rows] == [CONTENT, CONTENT]
    outbox.close()


async def test_two_that_come_together_under_one_key_are_one(tmp_path: Path) -> None:
    outbox = opened(tmp_path, Wall())
    rows = await asyncio.gather(*(add(outbox, f"req-{n}", key="k") for n in range(5)))
    assert len({row.id for row in rows}) == 1
    assert outbox.queued == 1
    with pytest.raises(IdempotencyKeyReused):
        await add(outbox, "req-9", Content(b"{}", {}, NOTHING, NOTHING), key="k")
    outbox.close()


async def test_the_oldest_answers_make_room_for_new_ones(tmp_path: Path) -> None:
    wall = Wall()
    outbox = opened(tmp_path, wall, total_bytes=3000)
    for n in range(4):
        row = await add(outbox, f"req-{n}")
        sealer = Sealer(Keys(b"k" * 32), ME.tenant, row.id)
        answer = KeptAnswer(sealer)
        await answer.send({"type": "http.response.start", "status": 200, "headers": []})
        await answer.send({"type": "http.response.body", "body": b"x" * 1000})
        assert await outbox.sending(row, "run")
        await outbox.end(row, "", answer)
        wall.now += 1
    rows = await outbox.rows()
    assert [row.reason for row in rows] == ["evicted-total-bytes", "evicted-total-bytes", "", ""]
    assert [(await outbox.answer(row)) is None for row in rows] == [True, True, False, False]
    outbox.close()


async def test_its_bytes_are_bounded(tmp_path: Path) -> None:
    outbox = opened(tmp_path, Wall(), total_bytes=1000)
    large = Content(b"x" * 600, {}, NOTHING, NOTHING)
    await add(outbox, "req-0", large)
    with pytest.raises(Overloaded):
        await add(outbox, "req-1", large)
    outbox.close()


@pytest.mark.parametrize(
    ("unknown", "state", "reason"), [("fail", State.FAILED, "unknown-outcome"), ("retry", State.QUEUED, "")]
)
async def test_what_was_being_sent_at_the_end_is_failed_or_sent_again_as_the_settings_say(
    tmp_path: Path, unknown: str, state: State, reason: str
) -> None:
    outbox = opened(tmp_path, Wall())
    sent, waiting = await add(outbox, "req-1"), await add(outbox, "req-2")
    assert await outbox.sending(sent, "req-run")
    assert not await outbox.sending(sent, "req-other")
    outbox.close()
    outbox = opened(tmp_path, Wall(), unknown=unknown)
    rows = {row.id: (row.state, row.reason) for row in await outbox.rows()}
    assert rows == {"req-1": (state, reason), "req-2": (State.QUEUED, "")}
    assert await outbox.content(waiting) == CONTENT
    outbox.close()


async def test_nobody_else_may_read_it_and_it_holds_no_content_in_the_clear(tmp_path: Path) -> None:
    outbox = opened(tmp_path, Wall())
    await add(outbox, "req-1", key="my-key")
    files = list((tmp_path / "state").iterdir())
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    held = b"".join(file.read_bytes() for file in files)
    assert b"secret words" not in held
    assert b"my-key" not in held
    with pytest.raises(ValueError, match="another gateway"):
        opened(tmp_path, Wall())
    outbox.close()


@pytest.mark.parametrize("how", ["dropped", "expired"])
async def test_what_was_let_go_is_in_no_file_any_more(tmp_path: Path, how: str) -> None:
    wall = Wall()
    outbox = opened(tmp_path, wall, age_s=10)
    row = await add(outbox, "req-1", Content(b"x" * 20_000, {}, NOTHING, NOTHING))
    sealed = await outbox._do(lambda file: file.request("req-1"))
    assert sealed is not None

    def held() -> int:
        files = b"".join(file.read_bytes() for file in (tmp_path / "state").iterdir())
        return sum(sealed[at : at + 64] in files for at in range(0, len(sealed) - 64, 64))

    assert held()
    if how == "dropped":
        await outbox.drop(row)
    else:
        wall.now += 10
        await outbox.expire()
    assert held() == 0
    outbox.close()


async def test_a_seal_of_one_request_does_not_open_in_anothers_place(tmp_path: Path) -> None:
    outbox = opened(tmp_path, Wall())
    await add(outbox, "req-1")
    second = await add(outbox, "req-2")
    outbox.close()
    with sqlite3.connect(tmp_path / "state" / "outbox.sqlite") as db:
        db.execute("UPDATE deferred SET request = (SELECT request FROM deferred WHERE id = 'req-1') WHERE id = 'req-2'")
    db.close()
    outbox = opened(tmp_path, Wall())
    with pytest.raises(Exception, match="cannot be read"):
        await outbox.content(second)
    outbox.close()
    assert json.loads(CONTENT.to_bytes().split(b"\n")[0])["key"] == ["internal", []]

"""Deferrable requests, over sockets: put off while nobody can answer, decided again and answered later, picked up."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from typing import Any

import httpx
import pytest

from gateway.kept.answers import Owner
from gateway.kept.outbox import Content
from gateway.kept.outbox_file import OVER, OutboxFile
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

"""What a caller's device tells: it moves who is asked first, stands in record and explanation, and goes no further."""

from __future__ import annotations

from gateway.records.reader import read_records
from routing_policies.policy.loader import load_policy
from tests.gateway.conftest import HouseFactory

HINTS = {"save-data": "on", "x-client-network": "cellular;metered", "x-client-battery": "17", "ect": "3g"}


async def test_hints_move_who_is_asked_first_and_are_recorded_and_sent_to_nobody(house: HouseFactory) -> None:
    async with house(loaded=load_policy("cost-first")) as h:
        plain = await h.gateway.chat("hi")
        hinted = await h.gateway.chat("hi", headers={"x-client-battery": "12"})
        assert (plain.headers["x-tidegate-target"], hinted.headers["x-tidegate-target"]) == ("edge", "cloud")
        assert hinted.headers["x-tidegate-reason"] == "preferred:battery-is-low"
        await h.gateway.chat("hi", headers=HINTS)
        sent = [*h.edge.posts, *h.cloud.posts]
        assert len(sent) == 3
        assert not any(set(HINTS).intersection(post.headers) for post in sent)
        records = list(read_records(h.gateway.state_dir / "records"))
        last = [record for record in records if record["kind"] == "decision"][-1]
        assert last["client"] == {
            "save_data": True,
            "network": "cellular",
            "metered": True,
            "effective_type": "3g",
            "battery_percent": 17.0,
            "charging": False,
            "unreadable": [],
        }
        assert set(last["device"]) == {"connectivity", "free_memory_mb"}
        assert last["targets"]["edge"]["waiting"] == 0


async def test_a_hint_that_cannot_be_read_is_noted_by_name_and_refuses_nothing(house: HouseFactory) -> None:
    async with house() as h:
        answer = await h.gateway.chat("hi", headers={"x-client-battery": "4111 1111 1111 1111"})
        assert answer.status_code == 200
        records = (h.gateway.state_dir / "records").rglob("*.jsonl")
        written = b"".join(path.read_bytes() for path in records)
        assert b"x-client-battery: could not be read" in written
        assert b"4111 1111" not in written


async def test_no_hint_lowers_a_label_or_lets_anyone_else_answer(house: HouseFactory) -> None:
    async with house(loaded=load_policy("offline-first")) as h:
        body = {"model": "auto", "messages": [{"role": "user", "content": "My card is 4111 1111 1111 1111"}]}
        for headers in ({}, HINTS, {"x-client-network": "wifi", "x-client-battery": "100;charging", "ect": "4g"}):
            found = (await h.gateway.client.post("/v1/route/explain", json=body, headers=headers)).json()
            assert (found["label"]["class"], found["order"]) == ("restricted", ["edge"])

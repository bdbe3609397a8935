"""A conversation keeps the label of its turns: through the whole gateway, over sockets."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import House, HouseFactory

FIRST = {"role": "user", "content": "Summarise the minutes of the board. " * 150}  # long: the cloud is preferred
ANSWER = {"role": "assistant", "content": "They agreed."}
NEXT = {"role": "user", "content": "And who was there?"}
RESTRICTED = {"x-data-class": "restricted", "x-data-tags": "board"}


async def say(house: House, *messages: dict[str, Any], **headers: str) -> httpx.Response:
    body = {"model": "auto", "messages": list(messages), "max_tokens": 8}
    return await house.gateway.client.post("/v1/chat/completions", json=body, headers=headers)


async def explained(house: House, *messages: dict[str, Any], **headers: str) -> Any:
    body = {"model": "auto", "messages": list(messages), "max_tokens": 8}
    return (await house.gateway.client.post("/v1/route/explain", json=body, headers=headers)).json()


def target(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return response.headers["x-tidegate-target"]


async def test_a_turn_after_a_labelled_one_has_its_label_and_stays(house: HouseFactory) -> None:
    async with house() as h:
        assert target(await say(h, FIRST, ANSWER, NEXT)) == "cloud", "unlabelled, it goes to the cloud"
        assert target(await say(h, FIRST, **RESTRICTED)) == "edge"
        later = await say(h, FIRST, ANSWER, NEXT)
        assert target(later) == "edge"
        assert later.headers["x-tidegate-label"] == "restricted"
        found = await explained(h, FIRST, ANSWER, NEXT)
        assert found["label"]["components"]["taint"] == {"class": "restricted", "tags": ["board"]}
        assert found["label"]["components"]["declared"] == {"class": None, "tags": []}


async def test_every_later_turn_is_tainted_however_its_client_writes_the_history(house: HouseFactory) -> None:
    async with house() as h:
        await say(h, FIRST, **RESTRICTED)
        trimmed = {"role": "assistant", "content": "They"}
        parts = {"role": "user", "content": [{"type": "text", "text": FIRST["content"]}]}
        assert target(await say(h, parts, trimmed, NEXT)) == "edge"
        assert target(await say(h, FIRST, ANSWER, NEXT, {"role": "assistant", "content": "All."}, NEXT)) == "edge"
        assert target(await say(h, FIRST, NEXT)) == "edge"


async def test_a_turn_labelled_in_the_middle_taints_what_follows_and_not_what_came_before(house: HouseFactory) -> None:
    async with house() as h:
        await say(h, FIRST, ANSWER, NEXT, **RESTRICTED)
        assert target(await say(h, FIRST, ANSWER, {"role": "user", "content": "Something else."})) == "cloud"
        assert target(await say(h, FIRST, ANSWER, NEXT, ANSWER, NEXT)) == "edge"


async def test_another_conversation_is_not_tainted(house: HouseFactory) -> None:
    async with house() as h:
        await say(h, FIRST, **RESTRICTED)
        other = {"role": "user", "content": FIRST["content"] + " Please."}
        assert target(await say(h, other, ANSWER, NEXT)) == "cloud"
        assert target(await say(h, {**FIRST, "role": "system"}, ANSWER, NEXT)) == "cloud"


async def test_explaining_a_labelled_request_leaves_no_trace(house: HouseFactory) -> None:
    async with house() as h:
        await explained(h, FIRST, **RESTRICTED)
        assert target(await say(h, FIRST, ANSWER, NEXT)) == "cloud"


async def test_a_label_is_kept_also_where_nobody_could_answer(house: HouseFactory) -> None:
    async with house() as h:
        await h.edge.stop()
        assert (await say(h, FIRST, **RESTRICTED)).status_code == 503
        assert (await say(h, FIRST, ANSWER, NEXT)).status_code == 503
        assert not h.cloud.posts


async def test_taint_outlives_a_restart(house: HouseFactory) -> None:
    async with house() as h:
        await say(h, FIRST, **RESTRICTED)
    async with house() as h:
        assert target(await say(h, FIRST, ANSWER, NEXT)) == "edge"


def api_key(name: str, tenant: str, **fields: Any) -> dict[str, Any]:
    secret = hashlib.sha256(f"{name}-secret".encode()).hexdigest()
    return {"id": name, "secret_sha256": secret, "tenant": tenant, **fields}


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}.{name}-secret"}


async def test_a_keys_label_stays_with_the_conversation_within_its_tenant_and_not_beyond(house: HouseFactory) -> None:
    keys = [
        api_key("nurse", "clinic", data_class="confidential", data_tags=("phi",)),
        api_key("desk", "clinic"),
        api_key("shop", "elsewhere"),
    ]
    async with house(auth={"keys": keys}) as h:
        assert target(await say(h, FIRST, **bearer("nurse"))) == "edge"
        assert target(await say(h, FIRST, ANSWER, NEXT, **bearer("desk"))) == "edge"
        assert target(await say(h, FIRST, ANSWER, NEXT, **bearer("shop"))) == "cloud"


IMAGE = {
    "role": "user",
    "content": [
        {"type": "text", "text": "Who is at the door?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ],
}


async def test_a_key_may_carry_the_class_of_its_own_images(house: HouseFactory) -> None:
    keys = [api_key("door-cam", "home", uninspected={"image": "internal"}), api_key("phone", "home")]
    async with house(auth={"keys": keys}) as h:
        camera, phone = [(await explained(h, IMAGE, **bearer(name)))["label"] for name in ("door-cam", "phone")]
        assert (camera["class"], camera["uninspected_causes"]) == ("internal", ["image"])
        assert (phone["class"], phone["uninspected_causes"]) == ("confidential", ["image"])


@pytest.mark.parametrize("fault", ["damaged", "gone", "no folder"])
async def test_where_labels_cannot_be_known_a_request_with_an_earlier_answer_stays(
    house: HouseFactory, tmp_path: Path, fault: str
) -> None:
    async with house() as h:
        await say(h, FIRST, **RESTRICTED)
        file = tmp_path / "state" / "labels.sqlite"
        if fault == "damaged":
            for part in file.parent.iterdir():
                part.write_bytes(b"\xff" * part.stat().st_size)
        elif fault == "gone":
            for part in file.parent.iterdir():
                part.unlink()
        else:
            file.parent.rename(tmp_path / "elsewhere")
        other = {"role": "user", "content": "What is DNS? " * 400}
        later = await say(h, other, ANSWER, NEXT)
        assert target(later) == "edge"
        assert later.headers["x-tidegate-label"] == "confidential"
        found = await explained(h, other, ANSWER, NEXT)
        assert found["label"]["uninspected_causes"] == ["history"]
        assert target(await say(h, other)) == "cloud", "a first turn has no history to be known"


async def test_a_label_that_a_locked_store_could_not_take_is_not_forgotten(house: HouseFactory, tmp_path: Path) -> None:
    async with house() as h:
        holder = sqlite3.connect(tmp_path / "state" / "labels.sqlite", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert target(await say(h, FIRST, **RESTRICTED)) == "edge"
        while_locked = await say(h, FIRST, ANSWER, NEXT)
        assert target(while_locked) == "edge"
        assert (await explained(h, FIRST, ANSWER, NEXT))["label"]["uninspected_causes"] == ["history"]
        holder.execute("ROLLBACK")
        holder.close()
        assert (await say(h, FIRST, ANSWER, NEXT)).headers["x-tidegate-label"] == "restricted"


async def test_a_store_that_was_lost_between_two_runs_is_not_taken_for_a_new_one(
    house: HouseFactory, tmp_path: Path
) -> None:
    async with house() as h:
        await say(h, FIRST, **RESTRICTED)
    (tmp_path / "state" / "labels.sqlite").unlink()
    async with house() as h:
        assert target(await say(h, FIRST, ANSWER, NEXT)) == "edge"

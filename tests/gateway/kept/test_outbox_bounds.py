"""The outbox alone, with a clock of the test's own: its bounds, its file, what expires and what is let go."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gateway.kept.answer import KeptAnswer
from gateway.kept.answers import Owner
from gateway.kept.outbox import Content, Outbox
from gateway.kept.outbox_file import Row, State
from gateway.kept_settings import OutboxSettings
from gateway.state.keys import Keys
from gateway.state.sealing import Sealer
from inference_protocol.errors import IdempotencyKeyReused, Overloaded
from routing_policies.signals.label import NOTHING, Component, DataClass


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

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.state.label_store import KEPT_S, LabelStore, StoreUnreadable, make_label_file
from routing_policies.signals.label import NOTHING, Component, DataClass

RESTRICTED = Component(DataClass.RESTRICTED, frozenset({"phi"}))
TAGGED = Component(None, frozenset({"export"}))


class Wall:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def overwrite(path: Path, held: bytes) -> None:
    length = max(path.stat().st_size, 4096)
    path.write_bytes((held * length)[:length])


def content(path: Path) -> bytes:
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "labels.sqlite"
    make_label_file(path)
    return path


@pytest.fixture
async def store(path: Path) -> AsyncIterator[LabelStore]:
    store = LabelStore(path, wall=Wall())
    yield store
    store.close()


async def test_what_was_written_is_read_back_joined(store: LabelStore) -> None:
    await store.write(b"a", RESTRICTED)
    await store.write(b"b", TAGGED)
    await store.write(b"b", Component(DataClass.INTERNAL))
    assert await store.read([b"a"]) == RESTRICTED
    assert await store.read([b"b", b"c"]) == Component(DataClass.INTERNAL, frozenset({"export"}))
    assert await store.read([b"a", b"b"]) == Component(DataClass.RESTRICTED, frozenset({"phi", "export"}))
    assert await store.read([b"c"]) == NOTHING


async def test_a_later_lower_label_does_not_replace_a_higher_one(store: LabelStore) -> None:
    await store.write(b"a", RESTRICTED)
    await store.write(b"a", Component(DataClass.PUBLIC))
    assert await store.read([b"a"]) == RESTRICTED


async def test_workers_share_one_store_and_it_outlives_them(store: LabelStore, path: Path) -> None:
    await store.write(b"a", RESTRICTED)
    other = LabelStore(path, wall=Wall())
    assert await other.read([b"a"]) == RESTRICTED
    await other.write(b"b", TAGGED)
    other.close()
    assert await store.read([b"b"]) == TAGGED


async def test_a_conversation_with_very_many_turns_is_looked_up_whole(store: LabelStore) -> None:
    await store.write(b"turn 3999", RESTRICTED)
    assert await store.read([b"turn %d" % number for number in range(4000)]) == RESTRICTED


async def test_nobody_else_may_read_the_file(store: LabelStore, path: Path) -> None:
    await store.write(b"a", RESTRICTED)
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_labels_are_forgotten_after_their_time(path: Path) -> None:
    wall = Wall()
    for age_s, expected in ((0.0, RESTRICTED), (KEPT_S - 10, RESTRICTED), (KEPT_S + 10, NOTHING)):
        wall.now = 1_000_000.0
        store = LabelStore(path, wall=wall)
        await store.write(b"a", RESTRICTED)
        store.close()
        wall.now += age_s
        again = LabelStore(path, wall=wall)  # the first write after a start clears away what is old
        await again.write(b"b", TAGGED)
        assert await again.read([b"a"]) == expected
        again.close()


async def test_a_store_whose_file_is_no_database_is_unreadable_and_left_as_it_is(path: Path) -> None:
    overwrite(path, b"no database ")
    store = LabelStore(path, wall=Wall())
    await store.write(b"a", RESTRICTED)
    with pytest.raises(StoreUnreadable):
        await store.read([b"a"])
    store.close()
    assert content(path).startswith(b"no database")


async def test_a_store_damaged_while_it_is_open_is_unreadable(store: LabelStore, path: Path) -> None:
    for number in range(300):
        await store.write(b"%d" % number, RESTRICTED)
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    overwrite(path, b"\xff")
    with pytest.raises(StoreUnreadable):
        await store.read([b"%d" % number for number in range(300)])


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_store_whose_file_is_gone_stays_unreadable(store: LabelStore, path: Path, replaced: bool) -> None:
    await store.write(b"a", RESTRICTED)
    os.rename(path, f"{path}.moved")
    if replaced:
        make_label_file(path)
    for _ in range(3):
        with pytest.raises(StoreUnreadable):
            await store.read([b"a"])
        await store.write(b"b", RESTRICTED)


async def test_a_store_without_its_file_is_unreadable_and_makes_none(tmp_path: Path) -> None:
    store = LabelStore(tmp_path / "labels.sqlite", wall=Wall())
    await store.write(b"a", RESTRICTED)
    with pytest.raises(StoreUnreadable):
        await store.read([b"a"])
    store.close()
    assert os.listdir(tmp_path) == []


async def test_a_locked_store_is_unreadable_until_what_it_missed_is_written(store: LabelStore, path: Path) -> None:
    await store.write(b"a", RESTRICTED)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    async with asyncio.timeout(10):
        await store.write(b"b", TAGGED)
        with pytest.raises(StoreUnreadable):
            await store.read([b"a"])
    holder.execute("ROLLBACK")
    assert await store.read([b"a", b"b"]) == Component(DataClass.RESTRICTED, frozenset({"phi", "export"}))
    holder.close()


async def test_a_store_that_is_being_written_by_another_worker_is_read_without_waiting(
    store: LabelStore, path: Path
) -> None:
    await store.write(b"a", RESTRICTED)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM label")
    assert await store.read([b"a"]) == RESTRICTED
    writer.execute("ROLLBACK")
    writer.close()

"""Labels by the digest of the conversation that they were given to: one SQLite file, shared by the gateway's workers.

Reads happen on the caller's thread and never wait: in WAL mode nobody's writing blocks them. Writes happen on a thread
of the store's own. It holds digests under a secret key, classes and tags, and no text.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from routing_policies.signals.label import Component, DataClass

_logger = logging.getLogger(__name__)

# How long a label outlives the last turn that carried it.
KEPT_S = 30 * 86_400

_MOST_UNWRITTEN = 10_000
_WRITE_TIMEOUT_S = 0.25
_EXPIRE_EVERY = 10_000  # writes
_MOST_VARIABLES = 500  # of one statement; a conversation has more turns seldom
_SCHEMA = """
CREATE TABLE IF NOT EXISTS label (
    digest BLOB NOT NULL, level INTEGER NOT NULL, tags TEXT NOT NULL, seen INTEGER NOT NULL,
    PRIMARY KEY (digest, level, tags)
) WITHOUT ROWID
"""
_NO_LEVEL = -1


def make_label_file(path: Path) -> None:
    """Make an empty store, readable by nobody else, where there is none.

    Raises:
        OSError: It cannot be made.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


class StoreUnreadable(Exception):
    """What the store holds, or should hold, cannot be known now."""


class _Entry(NamedTuple):
    digest: bytes
    level: int
    tags: str


class LabelStore:
    """Remembers components of labels. Used from one event loop.

    A label that could not be written is kept in memory and written later; until then the store counts as unreadable,
    since other workers cannot know of it.
    """

    def __init__(self, path: Path, *, wall: Callable[[], float]) -> None:
        """Set up; the file is opened on first use, and again after it failed.

        Args:
            path: The file. It is never made here, since an empty store would call every conversation unlabelled.
            wall: Seconds since the epoch.
        """
        self._path = path
        self._inode: int | None = None
        self._wall = wall
        self._file: _File | None = None
        self._unwritten: dict[_Entry, None] = {}
        self._has_lost_some = False  # then only a restart makes it whole, for it cannot say whose labels are missing
        self._is_failing = False
        self._writes = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="label-store")

    async def read(self, digests: Sequence[bytes]) -> Component:
        """Return the join of what is kept under any of the digests.

        Raises:
            StoreUnreadable: The file is locked, damaged or gone, or something could not be written to it.
        """
        if self._file is None or self._unwritten:
            await self._write_what_waits()
        if self._file is None or self._unwritten or self._has_lost_some:
            raise StoreUnreadable
        try:
            return self._file.read(digests)
        except (sqlite3.Error, OSError) as exc:
            file, self._file = self._file, None
            self._thread.submit(file.close)  # which may be writing to it
            self._tell(exc)
            raise StoreUnreadable from None

    async def write(self, digest: bytes, component: Component) -> None:
        """Keep a component. What fails is made up for by the next call of either method."""
        level = _NO_LEVEL if component.level is None else int(component.level)
        if len(self._unwritten) < _MOST_UNWRITTEN:
            self._unwritten[_Entry(digest, level, ",".join(sorted(component.tags)))] = None
        else:
            self._has_lost_some = True
        await self._write_what_waits()

    def close(self) -> None:
        """Close the file, once what is being written is."""
        self._thread.submit(self._close_file)
        self._thread.shutdown(wait=True)

    async def _write_what_waits(self) -> None:
        entries = tuple(self._unwritten)
        loop = asyncio.get_running_loop()
        if await loop.run_in_executor(self._thread, self._written, entries):
            for entry in entries:
                self._unwritten.pop(entry, None)

    def _written(self, entries: Sequence[_Entry]) -> bool:
        """Write on the store's own thread; return whether the file now holds the entries."""
        try:
            if self._file is None:
                self._file = _File(self._path, self._inode)
                self._inode = self._file.inode
            now = int(self._wall())
            self._file.write(entries, now)
            if self._writes % _EXPIRE_EVERY == 0:
                self._file.expire(now - KEPT_S)
            self._writes += len(entries)
        except (sqlite3.Error, OSError) as exc:
            self._close_file()
            self._tell(exc)
            return False
        self._is_failing = False
        return True

    def _tell(self, fault: Exception) -> None:
        if not self._is_failing:
            _logger.error("labels of conversations cannot be kept or read (%s): later turns are uninspected", fault)
        self._is_failing = True

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


class _File:
    """The open file, with one connection for each of the two threads that use it."""

    def __init__(self, path: Path, inode: int | None) -> None:
        self._path = path
        self.inode = path.stat().st_ino if inode is None else inode
        self._check_that_it_is_still_there()
        self._writer = _connect(path, _WRITE_TIMEOUT_S)
        try:
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._writer.execute("PRAGMA synchronous=NORMAL")
            self._writer.execute(_SCHEMA)
            self._reader = _connect(path, 0.0)
        except sqlite3.Error:
            self._writer.close()
            raise

    def read(self, digests: Sequence[bytes]) -> Component:
        self._check_that_it_is_still_there()
        rows: list[tuple[int, str]] = []
        for start in range(0, len(digests), _MOST_VARIABLES):
            some = digests[start : start + _MOST_VARIABLES]
            marks = ",".join("?" * len(some))
            query = f"SELECT level, tags FROM label WHERE digest IN ({marks})"  # noqa: S608  # question marks only
            rows += self._reader.execute(query, some).fetchall()
        return Component.join(_component(level, tags) for level, tags in rows)

    def write(self, entries: Iterable[_Entry], now: int) -> None:
        self._check_that_it_is_still_there()
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            self._writer.executemany("INSERT OR REPLACE INTO label VALUES (?, ?, ?, ?)", [(*e, now) for e in entries])
            self._writer.execute("COMMIT")
        except sqlite3.Error:
            self._writer.execute("ROLLBACK")
            raise

    def expire(self, before: int) -> None:
        self._writer.execute("DELETE FROM label WHERE seen < ?", (before,))

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def _check_that_it_is_still_there(self) -> None:
        # An open file that was deleted or replaced still answers, but nobody else would see what is written to it.
        if self._path.stat().st_ino != self.inode:
            raise FileNotFoundError("the file is another one")


def _connect(path: Path, timeout_s: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False)


def _component(level: int, tags: str) -> Component:
    return Component(None if level == _NO_LEVEL else DataClass(level), frozenset(tags.split(",")) - {""})

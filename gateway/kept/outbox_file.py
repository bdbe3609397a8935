"""The outbox's file: one SQLite table, used by one thread of one process.

What is written is on the disk before a call returns (`synchronous=FULL`): a request that was accepted, and that it is
being sent, are not forgotten with the power either.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

_COLUMNS = "id, tenant, principal, route, state, accepted_at, expires_at, waits_for, trace, reason, run, seq, bytes"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS deferred (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, principal TEXT NOT NULL,
    route TEXT NOT NULL, state TEXT NOT NULL, accepted_at REAL NOT NULL, expires_at REAL NOT NULL,
    waits_for TEXT NOT NULL, trace TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', run TEXT NOT NULL DEFAULT '',
    idempotency BLOB UNIQUE, fingerprint BLOB NOT NULL, bytes INTEGER NOT NULL, request BLOB, answer BLOB
)
"""


class State(StrEnum):
    """How a deferred request stands."""

    QUEUED = "queued"
    SENDING = "sending"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"


OVER = (State.DONE, State.FAILED, State.EXPIRED)


class Row(NamedTuple):
    """What is not sealed of a deferred request: nothing that its caller wrote.

    Attributes:
        accepted_at, expires_at: Seconds since the epoch. Of one that is over, when it is forgotten.
        waits_for: Targets that could answer it and were down, separated by commas.
        trace: `traceparent` of the request that was put off.
        reason: Why it failed: a code.
        run: Id of the request that it was answered as.
        seq: Its place in the line.
        bytes: What it takes.
    """

    id: str
    tenant: str
    principal: str
    route: str
    state: State
    accepted_at: float
    expires_at: float
    waits_for: str
    trace: str
    reason: str = ""
    run: str = ""
    seq: int = 0
    bytes: int = 0


class OutboxFile:
    """The open file. Every method raises `sqlite3.Error` where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        """Open the file, and make it where there is none; nobody else may open it meanwhile.

        Raises:
            OSError: It cannot be made.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._db = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
                self._db.execute(f"PRAGMA {pragma}")
            self._db.execute(_SCHEMA)
        except sqlite3.Error:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(
        self, row: Row, request: bytes, idempotency: bytes | None, fingerprint: bytes, bounds: tuple[int, int]
    ) -> bool:
        """Put a request in the line, unless that passes the bounds.

        Args:
            row: Of the request.
            request: Sealed.
            idempotency: Digest of its key.
            fingerprint: Digest of its body.
            bounds: Most rows, most bytes.

        Returns:
            Whether it was put there.
        """
        with self._transaction():
            count, size = self._db.execute("SELECT COUNT(*), TOTAL(bytes) FROM deferred").fetchone()
            if count >= bounds[0] or size + len(request) > bounds[1]:
                return False
            self._db.execute(
                "INSERT INTO deferred (id, tenant, principal, route, state, accepted_at, expires_at, waits_for, trace,"
                " idempotency, fingerprint, bytes, request) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row[:9], idempotency, fingerprint, len(request), request),
            )
            return True

    def find(self, request_id: str) -> Row | None:
        """Return a request by its id."""
        return _row(self._db.execute(f"SELECT {_COLUMNS} FROM deferred WHERE id = ?", (request_id,)).fetchone())  # noqa: S608  # constant

    def find_by_key(self, idempotency: bytes) -> tuple[Row, bytes] | None:
        """Return a request by the digest of its idempotency key, with its fingerprint."""
        query = f"SELECT {_COLUMNS}, fingerprint FROM deferred WHERE idempotency = ?"  # noqa: S608  # constant
        found = self._db.execute(query, (idempotency,)).fetchone()
        return None if found is None else (Row(*found[:-1])._replace(state=State(found[4])), found[-1])

    def all(self, *states: State) -> list[Row]:
        """Return the requests in these states, or in any, in the order of the line."""
        marks = ",".join("?" * len(states))
        where = f"WHERE state IN ({marks})" if states else ""
        found = self._db.execute(f"SELECT {_COLUMNS} FROM deferred {where} ORDER BY seq", states)  # noqa: S608  # marks
        return [row for each in found if (row := _row(each)) is not None]

    def count(self, state: State) -> int:
        """How many are in this state."""
        return int(self._db.execute("SELECT COUNT(*) FROM deferred WHERE state = ?", (state,)).fetchone()[0])

    def position(self, row: Row) -> int:
        """How many wait up to this one, itself included."""
        query = "SELECT COUNT(*) FROM deferred WHERE state = ? AND seq <= ?"
        return int(self._db.execute(query, (State.QUEUED, row.seq)).fetchone()[0])

    def request(self, request_id: str) -> bytes | None:
        """Return the sealed request."""
        return self._blob("request", request_id)

    def answer(self, request_id: str) -> bytes | None:
        """Return the sealed answer."""
        return self._blob("answer", request_id)

    def move(self, request_id: str, old: State, new: State, *, run: str = "", waits_for: str | None = None) -> bool:
        """Put a request from one state into another; say whether it was in the first."""
        changed = self._db.execute(
            "UPDATE deferred SET state = ?, run = ?, waits_for = COALESCE(?, waits_for) WHERE id = ? AND state = ?",
            (new, run, waits_for, request_id, old),
        )
        return changed.rowcount == 1

    def end(self, request_id: str, state: State, reason: str, answer: bytes | None, expires_at: float) -> None:
        """Say how a request ended, and keep its answer alone."""
        self._db.execute(
            "UPDATE deferred SET state = ?, reason = ?, answer = ?, bytes = ?, request = NULL, expires_at = ?"
            " WHERE id = ?",
            (state, reason, answer, len(answer or b""), expires_at, request_id),
        )
        self._wipe_journal()

    def make_room(self, count: int, most: int, reason: str) -> bool:
        """Drop answers, the oldest first, until so many bytes more are within bounds; say whether they are."""
        with self._transaction():
            (size,) = self._db.execute("SELECT TOTAL(bytes) FROM deferred").fetchone()
            ended = self._db.execute("SELECT id, bytes FROM deferred WHERE answer IS NOT NULL ORDER BY expires_at")
            for request_id, held in ended.fetchall():
                if size + count <= most:
                    break
                self._db.execute(
                    "UPDATE deferred SET answer = NULL, bytes = 0, reason = ? WHERE id = ?", (reason, request_id)
                )
                size -= held
            return bool(size + count <= most)

    def expire(self, now: float, told_until: float) -> None:
        """Let those expire that have waited too long, and forget those that are over and have been told of enough."""
        with self._transaction():
            gone = self._db.execute("DELETE FROM deferred WHERE state IN (?, ?, ?) AND expires_at <= ?", (*OVER, now))
            expired = self._db.execute(
                "UPDATE deferred SET state = ?, reason = 'evicted-age', request = NULL, bytes = 0, expires_at = ?"
                " WHERE state = ? AND expires_at <= ?",
                (State.EXPIRED, told_until, State.QUEUED, now),
            )
        if gone.rowcount + expired.rowcount:
            self._wipe_journal()

    def delete(self, request_id: str) -> bool:
        """Forget a request; say whether it was there."""
        found = self._db.execute("DELETE FROM deferred WHERE id = ?", (request_id,)).rowcount == 1
        self._wipe_journal()
        return found

    def _wipe_journal(self) -> None:
        """What was let go shall not stand in the journal either, sealed as it is."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _blob(self, column: str, request_id: str) -> bytes | None:
        found = self._db.execute(f"SELECT {column} FROM deferred WHERE id = ?", (request_id,)).fetchone()  # noqa: S608  # ours
        return None if found is None else found[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _row(found: tuple[str, ...] | None) -> Row | None:
    return None if found is None else Row(*found)._replace(state=State(found[4]))  # type: ignore[arg-type]  # as declared

"""The file of keys that `tidegate keys` makes, in the state folder: who has one, until when, and the secrets' digests.

Its owner alone reads and writes it. It is replaced whole, so a gateway that reads meanwhile finds one or the other.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from gateway.access_settings import ApiKey, Moment
from gateway.reach_settings import Frozen
from observability.disk import write_whole

_MOST_KEYS = 10_000


class KeyFileUnusable(ValueError):
    """The file cannot be read, is damaged, or others may write to it. The message says what to do."""


class StoredKey(ApiKey):
    """A key of the file. One that was revoked stays in it, so that its id is never given to somebody else."""

    created_at: Moment
    revoked_at: Moment | None = None

    def status(self, now: datetime) -> Literal["active", "expired", "revoked"]:
        """How it stands."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"


class _Content(Frozen):
    version: Literal[1] = 1
    keys: tuple[StoredKey, ...] = Field(default=(), max_length=_MOST_KEYS)


# Modification time, size and inode, which a replaced file never shares with the one before; `None` where there is none.
Stamp = tuple[int, int, int] | None


class KeyFile:
    """One file of keys."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self.path = path

    def stamp(self) -> Stamp:
        """What changes with the file."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def load(self) -> tuple[StoredKey, ...]:
        """Return its keys, the oldest first; none where there is no file.

        Raises:
            KeyFileUnusable: It cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                raw = file.read()
        except FileNotFoundError:
            return ()
        except OSError as exc:
            raise KeyFileUnusable(f"the file of keys cannot be read: {exc.strerror}: {self.path}") from None
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise KeyFileUnusable(f"others may write to the file of keys: chmod 600 {self.path}")
        try:
            return _Content.model_validate_json(raw).keys
        except ValidationError:
            raise KeyFileUnusable(
                f"the file of keys is damaged: restore {self.path}, or move it away and make new keys"
            ) from None

    def add(self, key: StoredKey) -> None:
        """Keep a new key.

        Raises:
            KeyFileUnusable: The file cannot be read.
            ValueError: There is a key of that id, or there are too many.
            OSError: It cannot be written.
        """

        def added(keys: tuple[StoredKey, ...]) -> tuple[StoredKey, ...]:
            if any(each.id == key.id for each in keys):
                raise ValueError(f"there is a key {key.id} already, or was one: choose another id")
            if len(keys) >= _MOST_KEYS:
                raise ValueError(f"there are {_MOST_KEYS} keys already; let callers come with tokens instead")
            return (*keys, key)

        self._change(added)

    def revoke(self, key_id: str, now: datetime) -> StoredKey:
        """Have a key hold no more; one that was revoked before stays as it is.

        Raises:
            KeyError: There is no such key.
            KeyFileUnusable: The file cannot be read.
            OSError: It cannot be written.
        """
        found: list[StoredKey] = []

        def revoked(keys: tuple[StoredKey, ...]) -> tuple[StoredKey, ...]:
            found.extend(
                each if each.revoked_at is not None else each.model_copy(update={"revoked_at": now})
                for each in keys
                if each.id == key_id
            )
            if not found:
                raise KeyError(key_id)
            return tuple(found[0] if each.id == key_id else each for each in keys)

        self._change(revoked)
        return found[0]

    def _change(self, change: Callable[[tuple[StoredKey, ...]], tuple[StoredKey, ...]]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            content = _Content(keys=change(self.load()))
            write_whole(self.path, content.model_dump_json(indent=1, exclude_defaults=True).encode() + b"\n")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One command changes it at a time."""
        descriptor = os.open(self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

"""What is on its way to a collector: kept on the disk until the collector has it, also over restarts, and bounded.

A file is one request, as it will be posted. Where the disk takes none, such as a full one, a little is held in memory.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from observability.disk import write_whole

# Of what the disk did not take. A batch of 512 spans is some 30 KB.
_MEMORY_BYTES = 4 * 1024 * 1024
# What a file takes at the least, so that many small ones are bounded too.
_BLOCK_BYTES = 4096
_SUFFIX = ".otlp.gz"


class Signal(StrEnum):
    """What a request carries; also the last part of the path that it is posted to."""

    TRACES = "traces"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Spooled:
    """One request that waits.

    Attributes:
        name: Sorts by age, and ends in its signal.
        size: Bytes that it takes.
        content: Where the disk did not take it.
    """

    name: str
    size: int
    content: bytes | None = None

    @property
    def signal(self) -> Signal:
        """What it carries."""
        return Signal(self.name.removesuffix(_SUFFIX).rpartition(".")[2])


class Spool:
    """Requests by their age. Several threads may use it, and several processes the same folder."""

    def __init__(self, folder: Path | None, max_bytes: int) -> None:
        """Find what earlier processes left.

        Args:
            folder: Made with mode 0700 if it is missing; `None` holds a little in memory alone.
            max_bytes: Of all requests together; the oldest are dropped to make room.

        Raises:
            OSError: The folder cannot be made.
        """
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._waiting: dict[str, Spooled] = {}
        self._last_ns = 0
        self.dropped = 0
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._find()

    @property
    def size(self) -> int:
        """Bytes that all that waits takes."""
        with self._lock:
            return sum(each.size for each in self._waiting.values())

    def put(self, signal: Signal, content: bytes) -> Spooled:
        """Keep one request, and drop the oldest ones where there is no room for it."""
        with self._lock:
            self._last_ns = max(self._last_ns + 1, time.time_ns())
            spooled = self._kept(f"{self._last_ns:020d}-{os.getpid()}.{signal}{_SUFFIX}", content)
            self._waiting[spooled.name] = spooled
            self._make_room()
            return spooled

    def oldest(self) -> Spooled | None:
        """Return what has waited longest, also what another process left meanwhile; `None` where nothing waits."""
        with self._lock:
            if not self._waiting:
                self._find()
            return next(iter(self._waiting.values()), None)

    @contextmanager
    def taken(self, spooled: Spooled) -> Iterator[bytes | None]:
        """Hold one request, so that no other process sends it too; `None` where one does, or it is gone."""
        if spooled.content is not None or self._folder is None:
            yield spooled.content
            return
        try:
            file = (self._folder / spooled.name).open("rb")
        except OSError:
            yield None
            return
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                there = os.fstat(file.fileno()).st_nlink > 0
                content = file.read() if there else None
            except OSError:
                content = None
            yield content

    def forget(self, spooled: Spooled, *, delete: bool = True) -> None:
        """Let go of one request; `delete` is false where another process has it."""
        with self._lock:
            self._waiting.pop(spooled.name, None)
            if delete:
                self._delete(spooled)

    def _kept(self, name: str, content: bytes) -> Spooled:
        if self._folder is not None:
            aside = self._folder / f".{os.getpid()}.part"
            try:
                write_whole(self._folder / name, content, aside=aside, lasting=False)
            except OSError:
                with suppress(OSError):
                    aside.unlink(missing_ok=True)
            else:
                return Spooled(name, _on_disk(len(content)))
        return Spooled(name, len(content), content)

    def _make_room(self) -> None:
        waiting = list(self._waiting.values())
        total = sum(each.size for each in waiting)
        in_memory = sum(each.size for each in waiting if each.content is not None)
        for each in waiting:
            if total <= self._max_bytes and in_memory <= _MEMORY_BYTES:
                return
            if total > self._max_bytes or each.content is not None:
                del self._waiting[each.name]
                self._delete(each)
                self.dropped += 1
                total -= each.size
                in_memory -= each.size if each.content is not None else 0

    def _find(self) -> None:
        """Take up the files of the folder, oldest first."""
        if self._folder is None:
            return
        try:
            with os.scandir(self._folder) as entries:
                found = [(each.name, each.stat().st_size) for each in entries if each.name.endswith(_SUFFIX)]
        except OSError:  # gone meanwhile, or unreadable: then nothing waits there that could be sent
            return
        self._waiting.update({name: Spooled(name, _on_disk(size)) for name, size in sorted(found)})

    def _delete(self, spooled: Spooled) -> None:
        if spooled.content is None and self._folder is not None:
            with suppress(OSError):  # it is sent again, after a restart: twice is better than never
                (self._folder / spooled.name).unlink(missing_ok=True)


def _on_disk(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES

"""Where records are written: JSON lines, in one write each, before anything leaves this box."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import orjson

from gateway.settings import Durability, Settings
from inference_protocol.errors import RecordFailed
from observability.rotating_file import RotatingFile

__all__ = ["RecordFailed", "RecordLog"]

FILE_NAME = "requests.jsonl"

_logger = logging.getLogger(__name__)


class RecordLog:
    """An append-only log that several gateway workers may share. Used from one event loop.

    With durability `process` a record survives the end of the process once it is written; with `disk` it survives the
    end of the power too. Then a thread writes and flushes, in groups: while one flush runs, every record that comes
    waits for the next one, however many there are.
    """

    def __init__(self, directory: Path, *, durability: Durability, max_bytes: int, files: int) -> None:
        """Open the log.

        Args:
            directory: Made with mode 0700 if it is missing; the files have 0600.
            durability: What has happened to a record when `write_before_egress` returns.
            max_bytes: Size at which a file is rotated.
            files: How many are kept, the current one included.

        Raises:
            OSError: The log cannot be opened; a gateway that cannot record does not start.
        """
        on_disk = durability == "disk"
        self._file = RotatingFile(directory / FILE_NAME, max_bytes=max_bytes, files=files, durable=on_disk)
        self._flushed = _FlushedFile(self._file) if on_disk else None
        self._failed = 0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Open the log of this installation.

        Raises:
            OSError: It cannot be opened.
        """
        own = settings.records
        return cls(settings.folder.records, durability=own.durability, max_bytes=own.max_bytes, files=own.files)

    @property
    def failed(self) -> int:
        """Records that could not be written since the start."""
        return self._failed if self._flushed is None else self._flushed.failed

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record, or have it appended soon where a thread writes. Does not wait for the disk.

        Raises:
            RecordFailed: It could not be written whole.
        """
        line = _line(record)
        if self._flushed is not None:
            self._flushed.add(line)
            return
        try:
            self._file.append(line)
        except OSError as error:
            self._failed += 1
            raise _failed(error) from error

    async def write_before_egress(self, record: Mapping[str, Any]) -> None:
        """Append one record and return once it is as durable as the log promises.

        Raises:
            RecordFailed: It is not; nothing may go to anything that is not this box.
        """
        if self._flushed is None:
            self.write(record)
        else:
            # Others wait for the same flush, so a caller that goes away must not cancel it.
            await asyncio.shield(self._flushed.add(_line(record)))

    def close(self) -> None:
        """Close the log, once what was given to it is written."""
        if self._flushed is not None:
            self._flushed.close()
        self._file.close()


class _FlushedFile:
    """A file that one thread appends to, rotates and flushes, a group of lines at a time."""

    def __init__(self, file: RotatingFile) -> None:
        self._file = file
        self.failed = 0
        self._lines: list[bytes] = []
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="record-flush")
        self._one_at_a_time = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None

    def add(self, line: bytes) -> asyncio.Task[None]:
        """Return the flush that covers the line: it begins after now. It fails with `RecordFailed`."""
        self._lines.append(line)
        if self._next is None:
            self._next = asyncio.create_task(self._flush(), name="record-flush")
            self._next.add_done_callback(_log_failure)
        return self._next

    async def _flush(self) -> None:
        async with self._one_at_a_time:
            self._next = None  # whoever writes from here on needs the flush after this one
            lines = self._taken()
            if not lines:
                return
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._write, lines)
            except OSError as error:
                self.failed += len(lines)
                raise _failed(error) from error

    def _taken(self) -> list[bytes]:
        lines, self._lines = self._lines, []
        return lines

    def _write(self, lines: list[bytes]) -> None:
        for line in lines:
            self._file.append(line)
        self._file.flush()

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        lines = self._taken()
        if not lines:
            return
        try:
            self._write(lines)
        except OSError as error:
            _logger.error("the last %d records could not be written: %s", len(lines), error.strerror)


def _line(record: Mapping[str, Any]) -> bytes:
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _log_failure(flush: asyncio.Task[None]) -> None:
    """Not every line of a group has somebody who waits for it."""
    failure = None if flush.cancelled() else flush.exception()
    if failure is not None:
        _logger.error("records could not be written: %s", failure)


def _failed(error: OSError) -> RecordFailed:
    return RecordFailed(f"The decision could not be recorded ({error.strerror}), so nothing may leave this machine.")

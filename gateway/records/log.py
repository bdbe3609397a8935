"""Where records are written: JSON lines, in one write each, before anything leaves this box."""

from __future__ import annotations

import asyncio
import os
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


class RecordLog:
    """An append-only log that several gateway workers may share. Used from one event loop.

    With durability `process` a record survives the end of the process; with `disk` it survives the end of the power
    too. Flushes are shared: while one runs, every record that comes waits for the next one, however many there are.
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
        self._flushes = _Flushes(self._file) if on_disk else None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Open the log of this installation.

        Raises:
            OSError: It cannot be opened.
        """
        own = settings.records
        return cls(settings.folder.records, durability=own.durability, max_bytes=own.max_bytes, files=own.files)

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record. Costs tens of microseconds and does not wait for the disk.

        Raises:
            RecordFailed: It could not be written whole.
        """
        try:
            self._file.append(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise _failed(error) from error

    async def write_before_egress(self, record: Mapping[str, Any]) -> None:
        """Append one record and return once it is as durable as the log promises.

        Raises:
            RecordFailed: It is not; nothing may go to anything that is not this box.
        """
        self.write(record)
        if self._flushes is not None:
            await self._flushes.covering_what_was_written()

    def close(self) -> None:
        """Close the log; flushes that have begun are waited for."""
        if self._flushes is not None:
            self._flushes.close()
        self._file.close()


class _Flushes:
    """One `fdatasync` at a time, each for all the records written before it began."""

    def __init__(self, file: RotatingFile) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="record-flush")
        self._one_at_a_time = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None

    async def covering_what_was_written(self) -> None:
        """Wait for a flush that begins after now."""
        if self._next is None:
            self._next = asyncio.create_task(self._flush(), name="record-flush")
        # Others wait for the same flush, so a caller that goes away must not cancel it.
        await asyncio.shield(self._next)

    async def _flush(self) -> None:
        async with self._one_at_a_time:
            self._next = None  # whoever writes from here on needs the flush after this one
            # Its own descriptor, since the log may rotate meanwhile; what it leaves behind then is flushed already.
            descriptor = self._file.duplicate()
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._thread, os.fdatasync, descriptor)
            except OSError as error:
                raise _failed(error) from error
            finally:
                os.close(descriptor)

    def close(self) -> None:
        self._thread.shutdown(wait=True)


def _failed(error: OSError) -> RecordFailed:
    return RecordFailed(f"The decision could not be recorded ({error.strerror}), so nothing may leave this machine.")

"""An append-only file of lines with a size cap, safe for several processes that write the same path.

Traces and records share it. Each append is one `write` on an `O_APPEND` descriptor, so lines of different processes
never mix. When a file is full it is renamed to `name.1.ext` (and `.1` to `.2`, and so on; the oldest is dropped).
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from observability.disk import sync


class RotatingFile:
    """A size-capped file of lines. One thread appends; other processes may append to the same path."""

    def __init__(self, path: Path, *, max_bytes: int, files: int, durable: bool = False) -> None:
        """Open, or create with mode 0600 in a folder of mode 0700.

        Args:
            path: The file that is written; older ones stand beside it.
            max_bytes: Size at which a file is full. One line longer than this gets a file of its own.
            files: How many files there are at most, the written one included.
            durable: Flush a full file to the disk before leaving it, and each new file's name with it.

        Raises:
            OSError: The folder or file cannot be made or opened.
        """
        self._path = path
        self._max_bytes = max_bytes
        self._files = files
        self._durable = durable
        self._torn = False
        self._fd = self._opened()

    def append(self, lines: bytes) -> None:
        """Append whole lines, each ending in a newline, in one write.

        Raises:
            OSError: Not everything was written, such as on a full disk. The next append starts on a line of its own.
        """
        if self._is_full(len(lines)):
            self._rotate()
        data = b"\n" + lines if self._torn else lines
        written = os.write(self._fd, data)
        self._torn = 0 < written < len(data) or (self._torn and written == 0)
        if written < len(data):
            raise OSError(errno.ENOSPC, "only part of a line could be written", str(self._path))

    def flush(self) -> None:
        """Return once the disk holds what was appended; blocks for as long as that takes.

        Raises:
            OSError: It does not.
        """
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the file. Nothing may be appended after."""
        os.close(self._fd)
        self._fd = -1

    def _opened(self) -> int:
        """Open the file under the path; its folder is made again where somebody removed it."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable too, to see whether a writer that died left half a line.
        opened = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(opened).st_size
            self._torn = size > 0 and os.pread(opened, 1, size - 1) != b"\n"
            if self._durable:
                sync(self._path.parent)
        except OSError:
            os.close(opened)
            raise
        return opened

    def _is_full(self, more: int) -> bool:
        status = os.fstat(self._fd)
        dropped_by_another = status.st_nlink == 0
        return dropped_by_another or (status.st_size > 0 and status.st_size + more > self._max_bytes)

    def _rotate(self) -> None:
        """Move to a new file, unless another process already did; then follow it there.

        The lock is on the full file itself: whoever gets it second finds another file under the path. Where the new
        file cannot be opened, the full one stays the one that is held, so that the next append tries again. A closed
        descriptor's number must not stay here: it soon belongs to something else, such as a connection.
        """
        full = self._fd
        fcntl.flock(full, fcntl.LOCK_EX)
        try:
            if self._durable:
                os.fdatasync(full)
            if _same_file(self._path, full):
                self._shift()
            self._fd = self._opened()
        except OSError:
            fcntl.flock(full, fcntl.LOCK_UN)
            raise
        os.close(full)

    def _shift(self) -> None:
        if self._files == 1:
            self._path.unlink()
            return
        for number in range(self._files - 1, 0, -1):
            source = self._path if number == 1 else self._numbered(number - 1)
            if source.exists():
                source.replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.stem}.{number}{self._path.suffix}")


def _same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

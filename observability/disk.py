"""What makes a write outlast the end of the power, and leaves no half of one."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk.

    Raises:
        OSError: It cannot be opened, or the disk failed.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(
    path: Path, *content: bytes, aside: Path | None = None, mode: int = 0o600, lasting: bool = True
) -> None:
    """Write a file whole and for good, or not at all.

    It is written aside and renamed into place, so whoever reads meanwhile finds what was there before. One writer at a
    time: that is the caller's to see to, or each has an `aside` of its own.

    Args:
        path: The file.
        content: Its parts, one behind the other.
        aside: Where it is written first, on the same disk; without it, beside the file.
        mode: Who may read and write it, less what the process's umask takes away; its owner alone, if nothing is said.
        lasting: Whether it must outlast the end of the power, which takes milliseconds; a cache need not.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    aside = aside or path.with_name(f".{path.name}.part")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with open(descriptor, "wb") as file:
        for part in content:
            file.write(part)
        file.flush()
        if lasting:
            os.fsync(file.fileno())
    aside.replace(path)
    if lasting:
        sync(path.parent)

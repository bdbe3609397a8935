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


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that its owner alone may read: whole and for good, or not at all.

    It is written aside and renamed into place, so whoever reads meanwhile finds what was there before. One writer at a
    time: that is the caller's to see to.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    aside = path.with_name(f".{path.name}.part")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync(path.parent)

"""What makes a write outlast the end of the power."""

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

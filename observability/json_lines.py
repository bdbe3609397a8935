"""Reads back what `RotatingFile` writes, while it is being written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path


def lines_of(directory: Path, containing: str = "") -> Iterator[bytes]:
    """Yield the lines of every `*.jsonl` in a folder that hold `containing`, the longest unchanged file first."""
    needle = containing.encode()
    with ExitStack() as opened:
        # All are opened before any is read, so that a rotation meanwhile hides none of them.
        files = []
        for path in sorted(directory.glob("*.jsonl"), key=_changed_at):
            try:
                files.append(opened.enter_context(path.open("rb")))
            except FileNotFoundError:
                continue  # dropped since it was listed
        for file in files:
            yield from (line for line in file if needle in line)


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0

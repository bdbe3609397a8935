"""Reads back what `RotatingFile` writes, while it is being written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson

_TAIL_BYTES = 64 * 1024


def lines_of(directory: Path, containing: str = "") -> Iterator[bytes]:
    """Yield the lines of every `*.jsonl` in a folder that hold `containing`, the longest unchanged file first."""
    needle = containing.encode()
    with ExitStack() as opened:
        # All are opened before any is read, so that a rotation meanwhile hides none of them.
        files = []
        for path in _by_age(directory):
            try:
                files.append(opened.enter_context(path.open("rb")))
            except FileNotFoundError:
                continue  # dropped since it was listed
        for file in files:
            yield from (line for line in file if needle in line)


def parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects among the lines. One that a dying process left unfinished is passed over."""
    for line in lines:
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, dict):
            yield found


def last_lines(directory: Path) -> list[bytes]:
    """Return the last whole lines of the folder, oldest first: as many as lie in the last 64 KB of a file."""
    for path in reversed(_by_age(directory)):
        try:
            with path.open("rb") as file:
                skipped = max(0, file.seek(0, 2) - _TAIL_BYTES)
                file.seek(skipped)
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            continue
        whole = [line for line in lines[1 if skipped else 0 :] if line.endswith(b"\n")]
        if whole:
            return whole
    return []


def _by_age(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.jsonl"), key=_changed_at)


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0

"""Reads records back, for people and tools; the gateway itself never does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from observability.json_lines import last_lines, lines_of, parsed


def read_records(directory: Path, containing: str = "") -> Iterator[dict[str, Any]]:
    """Yield records, oldest first. Lines that a dying process left unfinished are passed over.

    Args:
        directory: The folder of the log; one that does not exist holds nothing.
        containing: Only lines with this text in them: an id, say. Much cheaper than parsing all of them.
    """
    return parsed(lines_of(directory, containing))


def last_record(directory: Path) -> dict[str, Any] | None:
    """Return the newest record, without reading the whole log."""
    return next(parsed(reversed(last_lines(directory))), None)

"""Reads records back, for people and tools; the gateway itself never does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from observability.json_lines import lines_of


def read_records(directory: Path, containing: str = "") -> Iterator[dict[str, Any]]:
    """Yield records, oldest first. Lines that a dying process left unfinished are passed over.

    Args:
        directory: The folder of the log; one that does not exist holds nothing.
        containing: Only lines with this text in them: an id, say. Much cheaper than parsing all of them.
    """
    for line in lines_of(directory, containing):
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(record, dict):
            yield record

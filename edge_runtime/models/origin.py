"""Where a version came from: `origin.json` beside its manifest, written where it was pulled, and signed by nobody."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from observability.disk import write_whole
from runtime_server.model_manifest import ORIGIN_NAME


def write_origin(folder: Path, origin: Mapping[str, Any]) -> None:
    """Write it into a folder that is not published yet."""
    write_whole(folder / ORIGIN_NAME, f"{json.dumps(origin, indent=2)}\n".encode())


def read_origin(folder: Path) -> dict[str, Any] | None:
    """Read it; `None` where the version was made here, or where it cannot be read."""
    try:
        found = json.loads((folder / ORIGIN_NAME).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None

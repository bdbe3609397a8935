"""Which keys vouch for models: those in a folder, which commands change, and those that the settings name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """Where the keys stand; nothing is read or checked yet.

    Attributes:
        folder: Holds each key in base64 as `<name>.pub`.
        given: Further ones, each as `NAME=KEY` with the key in base64.
    """

    folder: Path
    given: tuple[str, ...] = ()

"""The file that keeps how fast this machine is: with each model that ran here, and in reading memory.

Nothing depends on it: what cannot be read is measured again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inference_protocol.runtime_state import RuntimeState
from observability.disk import write_whole


class ModelSpeed(BaseModel):
    """How fast one model ran.

    Attributes:
        ms_per_token: Rows in a decode step to its milliseconds.
        prefill_tokens_per_s: Prompt tokens a second.
        slots: Requests at once that it was loaded for.
        measured_at: Unix seconds.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    ms_per_token: dict[int, float]
    prefill_tokens_per_s: float | None
    slots: int
    measured_at: int

    @property
    def tokens_per_s(self) -> float | None:
        """Of one request alone."""
        alone = self.ms_per_token.get(1)
        return None if not alone else 1000 / alone


class Profile(BaseModel):
    """What the file holds; models are named by their digest."""

    model_config = ConfigDict(extra="ignore")

    version: Literal[1] = 1
    bytes_per_s: float | None = None
    models: dict[str, ModelSpeed] = Field(default_factory=dict)


class DeviceProfile:
    """The file, read and written whole."""

    def __init__(self, path: Path, *, now: Callable[[], float]) -> None:
        """Keep what is found at `path`; `now` is in Unix seconds."""
        self._path = path
        self._now = now

    def read(self) -> Profile:
        """Return what is known; nothing where there is no such file, or none that can be read."""
        try:
            return Profile.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return Profile()

    def record_bandwidth(self, bytes_per_s: float) -> None:
        """Keep how fast memory is read."""
        self._write(self.read().model_copy(update={"bytes_per_s": bytes_per_s}))

    def record_model(self, state: RuntimeState) -> None:
        """Keep how fast the model of a runtime's state is."""
        speed = ModelSpeed(
            ms_per_token=state.ms_per_token,
            prefill_tokens_per_s=state.prefill_tokens_per_s,
            slots=state.slots,
            measured_at=int(self._now()),
        )
        known = self.read()
        self._write(known.model_copy(update={"models": known.models | {model.digest: speed for model in state.models}}))

    def _write(self, profile: Profile) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")  # a runtime and a bench may write at once
        write_whole(self._path, f"{profile.model_dump_json(indent=2)}\n".encode(), aside=aside)

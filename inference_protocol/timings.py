"""How long each part of a generation took, as our runtimes measure it and as their answers carry it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Timings:
    """Milliseconds. The wire's keys are the names of these fields.

    Attributes:
        queue_ms: Waiting for a slot.
        prefill_ms: Reading the prompt.
        decode_ms: Generating the rest, from the first token on.
    """

    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0

    def to_wire(self) -> dict[str, float]:
        """Return the `timings` object of an answer, to the microsecond."""
        return {field.name: round(getattr(self, field.name), 3) for field in fields(self)}

    @classmethod
    def from_wire(cls, value: Any) -> Timings | None:
        """Read a `timings` object. A member that is missing or no duration counts as 0; no object at all as `None`."""
        if not isinstance(value, Mapping):
            return None
        return cls(*(_duration(value.get(field.name)) for field in fields(cls)))


def _duration(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and value >= 0 else 0.0

"""`GET /internal/steps`: what an engine did lately, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StepKind(StrEnum):
    """What a step did."""

    READ = "read"
    RESTORE = "restore"
    DECODE = "decode"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class EngineStep:
    """One run of the model, or what stood in for one.

    Attributes:
        began_s: Seconds of the engine's own clock.
        duration_ms: Until its tokens were chosen.
        rows: Ids of the requests that took part, by slot.
        slot: Of the first.
        tokens: How many were read: of a prompt, one for each row, or a draft and the token before it.
        accepted: Of a draft.
        waiting: Requests that had no slot.
    """

    kind: StepKind
    began_s: float
    duration_ms: float
    rows: tuple[str, ...]
    slot: int
    tokens: int
    accepted: int = 0
    waiting: int = 0

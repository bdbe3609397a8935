"""What is kept for callers who are not there: answers of those who hung up, and requests until somebody can answer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gateway.reach_settings import Frozen

Permission = Literal["finish", "defer"]
"""What a key may ask for beside an answer: that it be finished without its caller, that it be put off."""


class DetachedSettings(Frozen):
    """Answers that are finished though their caller hung up (`x-on-disconnect: finish`). They are kept in memory.

    Attributes:
        answer_bytes: Of one answer; a longer one ends with an error.
        total_bytes: Of all of them; the oldest finished ones make room.
        kept_s: How long an answer can be fetched once it is complete.
    """

    answer_bytes: int = Field(default=16 << 20, gt=0)
    total_bytes: int = Field(default=64 << 20, gt=0)
    kept_s: float = Field(default=600.0, gt=0)


class OutboxSettings(Frozen):
    """Requests that are put off until somebody can answer (`"deferrable": true`). They are kept on the disk, sealed.

    Attributes:
        requests: Most that are kept, answered ones included.
        total_bytes: Of them all, with their answers; the oldest answers make room.
        age_s: How long a request waits before it expires.
        answer_s: How long an answer can be fetched, and how long is told what became of a request.
        flush_per_s: How many are sent each second once they can be.
        at_once: How many are answered at the same time.
        unknown: What becomes of one that was being sent as the gateway died: nobody knows whether it was answered.
    """

    requests: int = Field(default=1000, gt=0)
    total_bytes: int = Field(default=256 << 20, gt=0)
    age_s: float = Field(default=86_400.0, gt=0)
    answer_s: float = Field(default=86_400.0, gt=0)
    flush_per_s: float = Field(default=1.0, gt=0)
    at_once: int = Field(default=2, gt=0)
    unknown: Literal["fail", "retry"] = "fail"

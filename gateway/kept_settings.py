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

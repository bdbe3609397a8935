"""How large a request is, in tokens (an interval, never characters divided by four), bytes and parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TokenInterval:
    """Input tokens: a safe lower bound, the likely number, a safe upper bound. Equal when counted exactly."""

    least: int
    likely: int
    most: int


@dataclass(frozen=True, slots=True)
class Size:
    """The measured size.

    Attributes:
        tokens: Input tokens by the reference tokenizer.
        body_bytes: Length of the body.
        parts: Modality (`text`, `image`, `audio`, `blob`) to number of parts.
    """

    tokens: TokenInterval
    body_bytes: int
    parts: Mapping[str, int] = field(default_factory=dict)

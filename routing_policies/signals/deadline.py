"""Every accepted time header becomes an absolute monotonic deadline: one total, one to first content."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """When an answer stops being useful.

    Attributes:
        received_at: Monotonic seconds when the request arrived; budgets count from here.
        total_at: Monotonic seconds by which the whole answer is due, or `None`.
        first_content_at: Monotonic seconds by which its first content is due, or `None`.
        tpot_ms: Milliseconds per output token the caller hopes for; feeds prediction only.
    """

    received_at: float
    total_at: float | None = None
    first_content_at: float | None = None
    tpot_ms: float | None = None

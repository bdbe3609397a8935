"""How long a request may still take, as the gateway tells a runtime: what is left of the caller's own budget."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import Scope

from inference_protocol import headers
from inference_protocol.budgets import TRUNCATE, read_budget_ms
from inference_protocol.errors import InvalidHeader
from serving.http_request import header


@dataclass(frozen=True, slots=True)
class LatencyBudget:
    """How long the caller will wait.

    Attributes:
        deadline: Event-loop seconds before which the first content must come, or `None`.
        truncate: Whether to stop at the deadline, even in the middle of an answer.
    """

    deadline: float | None
    truncate: bool


def latency_budget(scope: Scope, now: float) -> LatencyBudget:
    """Read what is left of the caller's budget.

    Args:
        scope: The request's.
        now: Event-loop seconds at which it arrived.

    Raises:
        InvalidHeader: A header cannot be read.
    """
    late = header(scope, headers.LATE)
    if late not in (None, TRUNCATE):
        raise InvalidHeader(f"`{headers.LATE}` must be `{TRUNCATE}` or absent.", param=headers.LATE)
    raw = header(scope, headers.LATENCY_BUDGET_MS)
    if raw is None:
        return LatencyBudget(None, truncate=False)
    left_ms = read_budget_ms(headers.LATENCY_BUDGET_MS, raw)
    return LatencyBudget(now + left_ms / 1000, truncate=late == TRUNCATE)

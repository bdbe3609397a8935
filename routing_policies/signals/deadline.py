"""Every accepted time header becomes an absolute monotonic deadline: one total, one to first content.

What is accepted, and as what:

    total           x-latency-budget-ms, x-envoy-expected-rq-timeout-ms   milliseconds, decimal
                    grpc-timeout                                          up to 8 digits and one of H M S m u n
    bound on total  x-stainless-read-timeout                              seconds, decimal; OpenAI's SDKs send it
    first content   x-ttft-budget-ms, x-llm-d-slo-ttft-ms                 milliseconds, decimal
    prediction      x-llm-d-slo-tpot-ms                                   milliseconds for each output token, decimal

The smallest of a kind wins. The policy's default stands in where no header of that kind is given. The bound is no
budget (the SDKs send 600 seconds unasked): it shortens a total and never replaces the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from inference_protocol import headers
from inference_protocol.budgets import budget_refused, read_budget_ms, within_bounds

_GRPC_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
# gRPC over HTTP/2, "Timeout": hours, minutes, seconds, milli-, micro- and nanoseconds, here in milliseconds.
_GRPC_UNIT_MS = {"H": 3_600_000.0, "M": 60_000.0, "S": 1000.0, "m": 1.0, "u": 1e-3, "n": 1e-6}


@dataclass(frozen=True, slots=True)
class Deadline:
    """When an answer stops being useful.

    Attributes:
        received_at: Monotonic seconds when the request arrived; budgets count from here.
        total_at: Monotonic seconds by which the whole answer is due, or `None`.
        first_content_at: Monotonic seconds by which its first content is due, or `None`; never after `total_at`.
        tpot_ms: Milliseconds per output token the caller hopes for; feeds prediction only.
    """

    received_at: float
    total_at: float | None = None
    first_content_at: float | None = None
    tpot_ms: float | None = None

    def remaining_total_ms(self, now: float) -> float | None:
        """Milliseconds left for the whole answer, negative once it is late; `None` without a total deadline."""
        return None if self.total_at is None else (self.total_at - now) * 1000.0

    def remaining_first_content_ms(self, now: float) -> float | None:
        """Milliseconds left to first content, negative once it is late; `None` without a deadline of its own."""
        return None if self.first_content_at is None else (self.first_content_at - now) * 1000.0


@dataclass(frozen=True, slots=True)
class DeadlineDefaults:
    """The policy's budgets, in milliseconds, for requests that bring none of that kind."""

    total_ms: float | None = None
    ttft_ms: float | None = None


def parse_deadline(fields: Mapping[str, str], *, received_at: float, defaults: DeadlineDefaults) -> Deadline:
    """Read the time headers of a request.

    Args:
        fields: By lower-case name.
        received_at: Monotonic seconds when the request arrived.
        defaults: What the policy gives to requests that bring no budget of a kind.

    Raises:
        InvalidHeader: A time header is malformed, not above zero, or longer than seven days.
    """
    total_ms = _smallest(
        _milliseconds(fields, headers.LATENCY_BUDGET_MS),
        _milliseconds(fields, headers.ENVOY_EXPECTED_TIMEOUT_MS),
        _grpc_timeout(fields),
        default=defaults.total_ms,
    )
    total_ms = _smallest(total_ms, _seconds(fields, headers.STAINLESS_READ_TIMEOUT))
    ttft_ms = _smallest(
        _milliseconds(fields, headers.TTFT_BUDGET_MS),
        _milliseconds(fields, headers.LLM_D_SLO_TTFT_MS),
        default=defaults.ttft_ms,
    )
    if ttft_ms is not None:
        ttft_ms = _smallest(ttft_ms, total_ms)
    return Deadline(
        received_at=received_at,
        total_at=None if total_ms is None else received_at + total_ms / 1000.0,
        first_content_at=None if ttft_ms is None else received_at + ttft_ms / 1000.0,
        tpot_ms=_milliseconds(fields, headers.LLM_D_SLO_TPOT_MS),
    )


def _smallest(*budgets_ms: float | None, default: float | None = None) -> float | None:
    return min((budget for budget in budgets_ms if budget is not None), default=default)


def _milliseconds(fields: Mapping[str, str], name: str) -> float | None:
    value = fields.get(name)
    return None if value is None else read_budget_ms(name, value)


def _seconds(fields: Mapping[str, str], name: str) -> float | None:
    value = fields.get(name)
    return None if value is None else read_budget_ms(name, value, unit_ms=1000.0, unit="seconds")


def _grpc_timeout(fields: Mapping[str, str]) -> float | None:
    value = fields.get(headers.GRPC_TIMEOUT)
    if value is None:
        return None
    accepted = "1 to 8 digits and a unit, one of H M S m u n"
    match = _GRPC_TIMEOUT.fullmatch(value.strip())
    if match is None:
        raise budget_refused(headers.GRPC_TIMEOUT, accepted)
    return within_bounds(int(match[1]) * _GRPC_UNIT_MS[match[2]], headers.GRPC_TIMEOUT, accepted)

"""When a second attempt is made beside one that is slow, and where.

Hand-over: a request that left this device is handed over to it at `deadline - predicted time here`, so that it can
still make its deadline. Hedge: where settings want it, another target is asked once the first takes longer than it
usually does. Either way both go on, and the first to commit is the answer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from gateway.exchange import Cause, Decided
from gateway.reach_settings import AttemptSettings
from gateway.targets.target import Target
from routing_policies.snapshot import Prediction

# Standard deviations above the median: what five of six answers, and nineteen of twenty, stay below.
_FIVE_OF_SIX = 1.0
_P95 = 1.645


@dataclass(frozen=True, slots=True)
class Moment:
    """When to ask a second target, in monotonic seconds, why, and which would do."""

    at: float
    cause: Cause
    would_do: Callable[[Target], bool]


def moments(
    decided: Decided, first: str, settings: AttemptSettings, *, allowed: tuple[str, ...], now: float
) -> list[Moment]:
    """Return the moments for an attempt on `first` that begins now, soonest first; most requests have none."""
    found: list[Moment] = []
    targets = decided.policy.policy.targets
    if not targets[first].on_device:
        for name in allowed:
            at = _last_call(decided, decided.snapshot.targets[name].prediction) if targets[name].on_device else None
            if at is not None and at > now:
                found.append(Moment(at, Cause.HAND_OVER, functools.partial(_is_named, name)))
    if settings.hedge_after != "never" and not decided.request.needs.tools:
        delay_s = _hedge_delay_s(decided, decided.snapshot.targets[first].prediction, settings.hedge_after)
        if delay_s is not None:
            found.append(Moment(now + delay_s, Cause.HEDGE, lambda _: True))
    return sorted(found, key=lambda moment: moment.at)


def _is_named(name: str, target: Target) -> bool:
    return target.name == name


def _last_call(decided: Decided, prediction: Prediction | None) -> float | None:
    """When a target that takes as long as predicted must be asked, to be in time five times out of six."""
    if prediction is None:
        return None
    deadline = decided.view.deadline
    calls: list[float] = []
    if deadline.total_at is not None:
        calls.append(deadline.total_at - prediction.total_ms / 1000 * math.exp(_FIVE_OF_SIX * prediction.total_spread))
    if deadline.first_content_at is not None and decided.request.stream:
        ttft_s = prediction.ttft_ms / 1000 * math.exp(_FIVE_OF_SIX * prediction.ttft_spread)
        calls.append(deadline.first_content_at - ttft_s)
    return min(calls, default=None)


def _hedge_delay_s(decided: Decided, prediction: Prediction | None, after: str | float) -> float | None:
    if isinstance(after, (int, float)):
        return after
    if prediction is None:
        return None
    if decided.request.stream:
        return prediction.ttft_ms / 1000 * math.exp(_P95 * prediction.ttft_spread)
    return prediction.total_ms / 1000 * math.exp(_P95 * prediction.total_spread)

"""How long a target will take: a model of queue, prefill and decode, corrected by how wrong it has been.

    ttft  = queue wait + prompt tokens / prefill rate
    total = ttft + milliseconds per token at the batch it will run in * expected output tokens

A runtime of ours reports its queue, its rates and its milliseconds per token by batch size. Of another server only our
own requests are known: what they took to first content, how fast tokens came, and how many of them run there now.

What the formula leaves out (network, template, sampling, a machine busy with other things) shows as the ratio of actual
to predicted time. Its logarithm is tracked as a running mean and variance: the mean corrects the prediction, the
variance is its spread. So times are taken to be lognormal, and P(inside budget) is that distribution's CDF.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from inference_protocol.runtime_state import RuntimeState
from routing_policies.signals.size import TokenInterval
from routing_policies.snapshot import Prediction

# Newest observations never weigh less than this: about the last thirty count.
_FLOOR = 0.06
# The prior weighs as much as this many observations.
_PRIOR_COUNT = 4
_MIN_SPREAD = 0.05


class BudgetKind(StrEnum):
    """What a budget is for."""

    TOTAL = "total"
    FIRST_CONTENT = "first_content"


@dataclass(frozen=True, slots=True)
class Running:
    """A running mean and variance. It begins as a prior and forgets what is old.

    Attributes:
        count: Observations so far.
    """

    mean: float
    variance: float
    count: int = 0

    def with_value(self, value: float) -> Running:
        """Return it with one more observation."""
        weight = max(_FLOOR, 1.0 / (self.count + 1 + _PRIOR_COUNT))
        error = value - self.mean
        return Running(
            mean=self.mean + weight * error,
            variance=(1.0 - weight) * (self.variance + weight * error * error),
            count=self.count + 1,
        )

    @property
    def spread(self) -> float:
        """Standard deviation, never so small that one outlier would look impossible."""
        return max(_MIN_SPREAD, math.sqrt(self.variance))


@dataclass(frozen=True, slots=True)
class Observations:
    """What a target's answers have taught. Frozen: `observe` returns a new one.

    Attributes:
        ttft: Logarithm of actual over predicted time to first content.
        total: The same of the whole answer.
        output_share: Output tokens as a share of their cap.
        log_ttft_ms: Logarithm of the milliseconds to first content; used where the target reports no state.
        log_ms_per_token: Logarithm of the milliseconds per output token; likewise.
        log_whole_ms: Logarithm of the milliseconds of an answer that comes at once, such as vectors.
        load: Requests of ours that ran there at a time, the new one included; likewise.
    """

    ttft: Running = Running(0.0, 0.25)
    total: Running = Running(0.0, 0.5)
    output_share: Running = Running(0.5, 0.1)
    log_ttft_ms: Running | None = None
    log_ms_per_token: Running | None = None
    log_whole_ms: Running | None = None
    load: Running = Running(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Attempted:
    """How an attempt went, for the model to learn from.

    Attributes:
        in_flight: Requests of ours at the target when it began, this one included.
        ttft_ms: To first content; `None` where it did not come, or came with the whole answer at once.
        total_ms: To the end, or to the moment it was given up: the target's time, without waits for a slow reader.
        complete: Whether the answer ended by itself. If not, its true time is only known to be at least `total_ms`.
        output_tokens: Of the answer, where known.
        output_cap: The most that it was allowed.
    """

    in_flight: int
    ttft_ms: float | None
    total_ms: float
    complete: bool
    output_tokens: int | None
    output_cap: int


def predict(
    state: RuntimeState | None, observations: Observations, tokens: TokenInterval, output_cap: int, *, in_flight: int
) -> Prediction | None:
    """Predict a request's times at a target.

    Args:
        state: What the target last reported, or `None` where it reports nothing.
        observations: What is known of it from earlier answers.
        tokens: Input tokens of the request.
        output_cap: Most output tokens it may take.
        in_flight: Requests of ours there now, this one not included: newer than any report.

    Returns:
        The prediction, or `None` where there is nothing yet to predict from.
    """
    expected = max(1.0, output_cap * min(1.0, observations.output_share.mean)) if output_cap else 0.0
    base = _from_state(state, tokens.likely, expected, in_flight) if state is not None else None
    if base is None:
        base = _from_observed(observations, expected, in_flight)
    if base is None:
        return None
    ttft_ms = base[0] * math.exp(observations.ttft.mean)
    return Prediction(
        ttft_ms=ttft_ms,
        total_ms=max(ttft_ms, base[1] * math.exp(observations.total.mean)),
        ttft_spread=observations.ttft.spread,
        total_spread=observations.total.spread,
        output_tokens=expected,
        base=base,
    )


def probability_within(prediction: Prediction, budget_ms: float, kind: BudgetKind) -> float:
    """Return P(inside budget): the CDF of a lognormal distribution with the predicted median and spread."""
    if budget_ms <= 0.0:
        return 0.0
    total = kind is BudgetKind.TOTAL
    median = prediction.total_ms if total else prediction.ttft_ms
    spread = prediction.total_spread if total else prediction.ttft_spread
    return 0.5 * (1.0 + math.erf(math.log(budget_ms / median) / (spread * math.sqrt(2.0))))


def observe(observations: Observations, prediction: Prediction | None, attempted: Attempted) -> Observations:
    """Return what is known after one more attempt, for which `prediction` had been made.

    An attempt that was cancelled or timed out took at least as long as it ran. It counts with that time where it had
    already taken longer than predicted; otherwise a slow target would look as fast as its callers are impatient.
    """
    found = replace(observations, load=observations.load.with_value(float(attempted.in_flight)))
    if prediction is not None:
        base_ttft, base_total = prediction.base
        found = replace(found, total=_learn(found.total, attempted.total_ms, base_total, known=attempted.complete))
        if attempted.ttft_ms is not None:
            found = replace(found, ttft=_learn(found.ttft, attempted.ttft_ms, base_ttft, known=True))
        elif not attempted.complete:
            found = replace(found, ttft=_learn(found.ttft, attempted.total_ms, base_ttft, known=False))
    if attempted.ttft_ms is not None:
        found = replace(found, log_ttft_ms=_log_with(found.log_ttft_ms, attempted.ttft_ms))
        if attempted.output_tokens is not None and attempted.output_tokens > 1:
            decode_ms = (attempted.total_ms - attempted.ttft_ms) / (attempted.output_tokens - 1)
            found = replace(found, log_ms_per_token=_log_with(found.log_ms_per_token, decode_ms))
    if attempted.complete and attempted.ttft_ms is None and attempted.output_cap == 0:
        found = replace(found, log_whole_ms=_log_with(found.log_whole_ms, attempted.total_ms))
    if attempted.complete and attempted.output_tokens is not None and attempted.output_cap > 0:
        share = min(1.0, attempted.output_tokens / attempted.output_cap)
        found = replace(found, output_share=found.output_share.with_value(share))
    return found


def _learn(running: Running, actual_ms: float, base_ms: float, *, known: bool) -> Running:
    ratio = math.log(max(actual_ms, 0.01) / max(base_ms, 0.01))
    return running.with_value(ratio) if known or ratio > running.mean else running


def _log_with(running: Running | None, ms: float) -> Running:
    value = math.log(max(ms, 0.01))
    return Running(value, 0.25) if running is None else running.with_value(value)


def _from_state(state: RuntimeState, prompt_tokens: int, expected: float, in_flight: int) -> tuple[float, float] | None:
    if not state.prefill_tokens_per_s or not state.ms_per_token:
        return None
    busy = max(state.running + state.waiting, in_flight)
    ms_per_token = _at_batch(state.ms_per_token, min(busy + 1, state.slots))
    prefill_ms = 1000.0 * (state.prefill_tokens_queued + prompt_tokens) / state.prefill_tokens_per_s
    # With all slots taken, one comes free after each 1/slots of an answer's decode time.
    answers_ahead = max(0, busy + 1 - state.slots) / state.slots
    ttft_ms = max(1.0, answers_ahead * expected * ms_per_token + prefill_ms)
    return ttft_ms, ttft_ms + ms_per_token * expected


def _from_observed(observations: Observations, expected: float, in_flight: int) -> tuple[float, float] | None:
    # Up to its usual load it is as fast as usual; beyond, requests share what it has.
    crowding = max(1.0, (in_flight + 1) / max(1.0, observations.load.mean))
    if expected == 0.0 and observations.log_whole_ms is not None:
        whole_ms = crowding * math.exp(observations.log_whole_ms.mean)
        return whole_ms, whole_ms
    if observations.log_ttft_ms is None or observations.log_ms_per_token is None:
        return None
    ttft_ms = crowding * math.exp(observations.log_ttft_ms.mean)
    return ttft_ms, ttft_ms + crowding * expected * math.exp(observations.log_ms_per_token.mean)


def _at_batch(ms_per_token: Mapping[int, float], batch: int) -> float:
    """Interpolate between the batch sizes that were measured; outside them the nearest one stands."""
    if batch in ms_per_token:
        return ms_per_token[batch]
    below = max((size for size in ms_per_token if size < batch), default=None)
    above = min((size for size in ms_per_token if size > batch), default=None)
    if below is None or above is None:
        return ms_per_token[below if below is not None else above]  # type: ignore[index]  # it is not empty
    part = (batch - below) / (above - below)
    return ms_per_token[below] + part * (ms_per_token[above] - ms_per_token[below])

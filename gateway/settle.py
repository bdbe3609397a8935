"""Step 8: one place where every request is settled, once, however it ended."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from opentelemetry.trace import StatusCode

from gateway.access.worst_case import used_by
from gateway.exchange import Attempt, Decided, Exchange
from gateway.metrics.requests import RequestMetrics
from gateway.policies.shadow import ShadowDesk
from gateway.records.builders import outcome_record
from gateway.records.log import RecordLog
from gateway.targets.registry import Targets
from inference_protocol import telemetry_names as names
from inference_protocol.errors import RecordFailed, UpstreamError
from inference_protocol.outcome import Outcome
from routing_policies.latency_model import Attempted, observe
from serving.logs import in_trace

_logger = logging.getLogger(__name__)

# Attempts that were given up while their target was at work: it would have taken at least as long.
_STILL_AT_WORK = frozenset({Outcome.CLIENT_CLOSED, Outcome.DEADLINE_EXCEEDED, Outcome.SUPERSEDED})


class Settlement:
    """Ends attempts and spans, teaches the latency model, counts, writes the outcome record."""

    def __init__(
        self, targets: Targets, records: RecordLog, metrics: RequestMetrics, *, clock: Callable[[], float]
    ) -> None:
        """Wire the rooms that are told; `clock` gives monotonic seconds."""
        self._targets = targets
        self._metrics = metrics
        self._records = records
        self._clock = clock
        self._desk = ShadowDesk(clock)

    def settle(self, exchange: Exchange) -> None:
        """Account for a request that is over."""
        now = self._clock()
        if exchange.outcome is None:
            exchange.outcome = Outcome.OK
        for attempt in exchange.attempts:
            if attempt.ended_at is None:
                self._end_open(attempt, exchange, now)
            self._teach(attempt, exchange)
        exchange.grant.settle(functools.partial(used_by, exchange))
        self._mark_span(exchange, now)
        self._metrics.count(exchange, now)
        try:
            self._records.write(outcome_record(exchange, now, self._shadowed(exchange)))
        except RecordFailed as exc:
            _logger.error(
                "the outcome of %s could not be recorded: %s", exchange.request_id, exc, extra=in_trace(exchange.span)
            )

    def _end_open(self, attempt: Attempt, exchange: Exchange, now: float) -> None:
        """End the attempt whose answer committed; it ended as the request did."""
        assert exchange.outcome is not None
        # To the target it is all the same whether the caller still waited.
        outcome = Outcome.OK if exchange.outcome is Outcome.FINISHED_DETACHED else exchange.outcome
        attempt.end(now, outcome, exchange.error.code if exchange.error else None)
        if attempt.lease is not None:
            if isinstance(exchange.error, UpstreamError):
                attempt.lease.failed(now)
            else:
                attempt.lease.succeeded(now)  # it has answered, whatever became of its caller
        span = attempt.span
        if attempt.first_content_at is not None:
            span.set_attribute(names.GEN_AI_TIME_TO_FIRST_CHUNK, attempt.first_content_at - attempt.started_at)
        facts = attempt.facts
        if facts is not None:
            if facts.execution is not None:
                span.set_attributes(facts.execution.attributes)
            if facts.finish_reason is not None:
                span.set_attribute(names.GEN_AI_RESPONSE_FINISH_REASONS, [facts.finish_reason])
            if facts.usage is not None:
                span.set_attribute(names.GEN_AI_INPUT_TOKENS, facts.usage.prompt_tokens)
                span.set_attribute(names.GEN_AI_OUTPUT_TOKENS, facts.usage.completion_tokens)
                span.set_attribute(names.GEN_AI_CACHED_TOKENS, facts.usage.cached_tokens)
        if exchange.error is not None:
            span.set_attribute(names.ERROR_TYPE, exchange.error.error_type)
            span.set_status(StatusCode.ERROR)
        attempt.close_span()

    def _shadowed(self, exchange: Exchange) -> dict[str, Any] | None:
        if exchange.shadow is None or exchange.decision is None:
            return None
        return self._desk.ask(exchange.shadow, exchange.decision.snapshot, exchange.decision.verdict)

    def _teach(self, attempt: Attempt, exchange: Exchange) -> None:
        """Let the latency model learn from an attempt, also from one that was given up: it took at least that long."""
        if exchange.decision is None:
            return
        target = self._targets[attempt.target]
        before = exchange.decided.snapshot.targets[attempt.target]
        attempted = _attempted(attempt, exchange.decided)
        if attempted is not None:
            task = exchange.decided.request.task
            target.learn(task, observe(target.observed(task), before.prediction, attempted))

    def _mark_span(self, exchange: Exchange, now: float) -> None:
        span = exchange.span
        assert exchange.outcome is not None
        if not span.is_recording():
            return
        attributes: dict[str, str | float | list[str]] = {
            names.REQUEST_ID: exchange.request_id,
            names.OUTCOME: exchange.outcome.value,
            **{names.PARTS_MS[part]: ms for part, ms in exchange.parts_ms.items()},
        }
        if exchange.decision is not None:
            attributes[names.POLICY_DIGEST] = exchange.decision.policy.digest
            attributes[names.POLICY_VERSION] = exchange.decision.policy_version
        if exchange.committed_at is not None and exchange.answered is not None:
            attributes[names.TARGET] = exchange.answered.target
            attributes[names.RELAY_MS] = (now - exchange.committed_at) * 1000
        if exchange.answer_findings:
            attributes[names.ANSWER_FINDINGS] = sorted(exchange.answer_findings)
        if exchange.error is not None:
            attributes[names.ERROR_TYPE] = exchange.error.error_type
            if exchange.error.http_status >= 500:
                span.set_status(StatusCode.ERROR)
        span.set_attributes(attributes)


def _attempted(attempt: Attempt, decided: Decided) -> Attempted | None:
    """What the latency model learns from an attempt; nothing from one that the target refused or never saw."""
    assert attempt.ended_at is not None
    taught = attempt.facts is not None or attempt.outcome in _STILL_AT_WORK
    if not taught:
        return None
    ttft_ms: float | None = None
    if attempt.first_content_at is not None and decided.request.stream:
        ttft_ms = (attempt.first_content_at - attempt.started_at) * 1000
    total_ms = (attempt.ended_at - attempt.started_at) * 1000
    tokens: int | None = None
    facts = attempt.facts
    if facts is not None:
        if facts.timings is not None:
            # The target's own account leaves out the time that a slow reader took.
            own_ms = facts.timings.queue_ms + facts.timings.prefill_ms + facts.timings.decode_ms
            total_ms = min(total_ms, max(own_ms, ttft_ms or 0.0))
        tokens = facts.usage.completion_tokens if facts.usage is not None else facts.chunks or None
    return Attempted(
        in_flight=attempt.in_flight,
        ttft_ms=ttft_ms,
        total_ms=total_ms,
        complete=attempt.outcome is Outcome.OK,
        output_tokens=tokens,
        output_cap=decided.view.output_cap,
    )

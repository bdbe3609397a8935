"""Attempts in the verdict's order, until one commits. No target outside the verdict's eligible ones is ever asked."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

import observability
from gateway.answer import Answer
from gateway.dispatch.attempt import AttemptPlan, attempt
from gateway.dispatch.outbound import Outbound
from gateway.dispatch.restored import restored
from gateway.exchange import Attempt, Decided, Exchange
from gateway.settings import TimeoutSettings
from gateway.targets.registry import Targets
from gateway.targets.target import Target
from inference_protocol import telemetry_names as names
from inference_protocol.errors import (
    DeadlineExceeded,
    InternalError,
    NoTargetAvailable,
    TidegateError,
    UpstreamBlamedRequest,
    UpstreamUnreachable,
)
from inference_protocol.outcome import Outcome


class Dispatcher:
    """Makes attempts and keeps the account of them in the exchange."""

    def __init__(
        self,
        targets: Targets,
        outbound: Outbound,
        timeouts: TimeoutSettings,
        tracer: Tracer,
        *,
        clock: Callable[[], float],
        max_answer_bytes: int,
    ) -> None:
        """Wire the dispatcher; `clock` gives monotonic seconds."""
        self._targets = targets
        self._outbound = outbound
        self._timeouts = timeouts
        self._tracer = tracer
        self._clock = clock
        self._max_answer_bytes = max_answer_bytes

    async def first_to_commit(self, exchange: Exchange, allowed: tuple[str, ...]) -> Answer:
        """Return the first answer that commits.

        Args:
            exchange: The decided request.
            allowed: Names out of the verdict's eligible targets, in order.

        Raises:
            TidegateError: What the last attempt failed with, once none is left.
        """
        failure: TidegateError | None = None
        for name in allowed:
            if self._is_late(exchange):
                raise failure or DeadlineExceeded("The budget ran out before an attempt could start.")
            try:
                return await self._attempt(exchange, self._targets[name])
            except (DeadlineExceeded, UpstreamBlamedRequest):
                raise  # no other target can mend that
            except TidegateError as exc:
                failure = exc
        if isinstance(failure, UpstreamUnreachable):
            raise _none_reachable(exchange.decided, allowed)
        raise failure or InternalError("The verdict named no target.")

    async def _attempt(self, exchange: Exchange, target: Target) -> Answer:
        decided = exchange.decided
        started = self._clock()
        span = self._start_span(exchange, target, decided)
        target.enter()
        made = Attempt(target.name, started, span, target.in_flight)
        exchange.attempts.append(made)
        try:
            permit = await self._outbound.permit(decided, target)
            made.bytes_out = len(permit.body.content)
            plan = AttemptPlan(
                decided.request,
                permit,
                self._outbound.headers(exchange, target, span),
                deadline=_commit_by(decided),
                patience_s=self._timeouts.first_content_s if decided.request.stream else self._timeouts.total_s,
                idle_timeout_s=self._timeouts.idle_s,
                max_answer_bytes=self._max_answer_bytes,
            )
            answer = restored(await attempt(target, plan, self._clock), permit.body.originals, decided.request)
        except TidegateError as exc:
            if isinstance(exc, UpstreamUnreachable):
                target.mark_unreachable()
            made.end(self._clock(), Outcome.of(exc), exc.code)
            span.set_attribute(names.ERROR_TYPE, exc.error_type)
            span.set_status(StatusCode.ERROR)
            self._close(made, target)
            raise
        except BaseException:
            made.end(self._clock(), Outcome.CLIENT_CLOSED)
            self._close(made, target)
            raise
        made.first_content_at = self._clock()
        made.facts = answer.facts
        return answer

    def _start_span(self, exchange: Exchange, target: Target, decided: Decided) -> Span:
        request = decided.request
        attributes: dict[str, str | int | bool] = {
            names.TARGET: target.name,
            names.ATTEMPT: len(exchange.attempts) + 1,
            names.GEN_AI_OPERATION_NAME: request.task.value,
            names.GEN_AI_REQUEST_MODEL: request.model,
            names.GEN_AI_REQUEST_STREAM: request.stream,
        }
        return observability.child(
            self._tracer, exchange.span, f"{request.task} {request.model}", SpanKind.CLIENT, attributes=attributes
        )

    def _is_late(self, exchange: Exchange) -> bool:
        remaining_ms = exchange.decided.view.deadline.remaining_total_ms(self._clock())
        return remaining_ms is not None and remaining_ms <= 0

    def _close(self, made: Attempt, target: Target) -> None:
        target.leave()
        made.close_span()


def _commit_by(decided: Decided) -> float | None:
    """When the answer must have committed: at its first content, or, where it is not streamed, at its end."""
    deadline = decided.view.deadline
    bounds = [deadline.total_at, deadline.first_content_at if decided.request.stream else None]
    return min((bound for bound in bounds if bound is not None), default=None)


def _none_reachable(decided: Decided, allowed: tuple[str, ...]) -> NoTargetAvailable:
    """Nothing was sent anywhere: the same as if the targets had been known to be down."""
    only = "only " if len(allowed) == 1 else ""
    listed = ", ".join(f"`{name}`" for name in allowed)
    return NoTargetAvailable(
        f"This request is labelled {decided.verdict.label.level.word}; {only}{listed} may answer it and cannot be "
        "reached now.",
        retry_after_s=1.0,
        details={"unreachable": list(allowed)},
    )

"""One attempt with its account: a place at the target, a span, and what its end says of the address it was made at."""

from __future__ import annotations

import math
from collections.abc import Callable

from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

import observability
from gateway.answer import Answer
from gateway.dispatch.attempt import AttemptPlan, attempt
from gateway.dispatch.course import Course, Step
from gateway.dispatch.outbound import Outbound, outbound_path
from gateway.dispatch.rewritten import restored, scanned
from gateway.egress.endpoint import Endpoint
from gateway.exchange import Attempt, Cause, Decided, Exchange
from gateway.reach_settings import TimeoutSettings
from gateway.targets.affinity import conversation_key
from gateway.targets.pool import Lease
from gateway.targets.target import Target
from inference_protocol import telemetry_names as names
from inference_protocol.errors import (
    AnswerWithheld,
    ContextLengthExceeded,
    TidegateError,
    UpstreamBlamedRequest,
    UpstreamBusy,
    UpstreamError,
    UpstreamUnreachable,
)
from inference_protocol.outcome import Outcome
from inference_protocol.request import GENERATES
from routing_policies.signals.scanner import Scanner


class Attempts:
    """Makes attempts, and keeps the account of them in the exchange."""

    def __init__(
        self,
        outbound: Outbound,
        scanner: Scanner,
        timeouts: TimeoutSettings,
        tracer: Tracer,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        max_answer_bytes: int,
        longest_rest_s: float,
    ) -> None:
        """Wire the room.

        Args:
            outbound: Makes bodies and headers.
            scanner: Reads answers, where a policy says so.
            timeouts: Everybody's; a target may have its own.
            tracer: Where spans go.
            clock: Monotonic seconds.
            wall: Seconds since the epoch.
            max_answer_bytes: Of an answer that is not streamed.
            longest_rest_s: A target's wish to be left alone counts up to this.
        """
        self._outbound = outbound
        self._scanner = scanner
        self._timeouts = timeouts
        self._tracer = tracer
        self._clock = clock
        self._wall = wall
        self._max_answer_bytes = max_answer_bytes
        self._longest_rest_s = longest_rest_s

    async def make(self, exchange: Exchange, course: Course, step: Step) -> Answer:
        """Make one attempt and return its answer once it commits.

        Raises:
            TidegateError: It failed.
        """
        decided, target = exchange.decided, step.target
        due, patience_s = commit_by(decided), self._patience_s(target, decided)
        lease = await target.pool.lease(
            without=step.without,
            conversation=lambda: conversation_key(decided.view.tenant.id, decided.request.tree),
            prompt_tokens=decided.view.size.tokens.likely,
            until=min(self._clock() + patience_s, math.inf if due is None else due),
        )
        course.began(step, lease.replica)
        made = self._begin(exchange, step, lease)
        try:
            return await self._ask(exchange, target, made, patience_s)
        except TidegateError as exc:
            made.end(self._clock(), Outcome.of(exc), exc.code)
            self._judge(exc, lease)
            made.span.set_attribute(names.ERROR_TYPE, exc.error_type)
            made.span.set_status(StatusCode.ERROR)
            made.close_span()
            raise
        except BaseException:
            made.end(self._clock(), step.ends_as)
            lease.unjudged(self._clock())
            made.close_span()
            raise

    async def drop(self, step: Step, answer: Answer) -> None:
        """Account for an answer that committed just when nobody wanted it any more."""
        assert step.made is not None, "it has answered"
        assert step.made.lease is not None, "it has answered"
        now = self._clock()
        step.made.end(now, step.ends_as)
        step.made.lease.succeeded(now)
        step.made.close_span()
        await answer.aclose()

    def _begin(self, exchange: Exchange, step: Step, lease: Lease) -> Attempt:
        replica = lease.replica
        span = self._start_span(exchange, step, replica.endpoint)
        made = Attempt(
            step.target.name,
            self._clock(),
            span,
            replica.in_flight,
            cause=step.cause,
            endpoint=replica.endpoint.text,
            lease=lease,
        )
        step.made = made
        exchange.attempts.append(made)
        return made

    def _patience_s(self, target: Target, decided: Decided) -> float:
        """How long this gateway waits for a commit there, whatever the caller would."""
        own, general = target.settings.timeouts, self._timeouts
        if decided.request.stream:
            return own.first_content_s or general.first_content_s
        return own.total_s or general.total_s

    async def _ask(self, exchange: Exchange, target: Target, made: Attempt, patience_s: float) -> Answer:
        assert made.lease is not None, "an attempt begins with its place"
        decided = exchange.decided
        permit = await self._outbound.permit(decided, target)
        made.bytes_out = len(permit.body.content)
        plan = AttemptPlan(
            decided.request,
            permit,
            outbound_path(decided.request, target),
            {**self._outbound.headers(exchange, target, made.span), **target.credential},
            deadline=commit_by(decided),
            patience_s=patience_s,
            max_answer_bytes=self._max_answer_bytes,
        )
        answer = await attempt(made.lease.replica, plan, self._clock, self._wall)
        made.facts = answer.facts
        if decided.request.task in GENERATES:  # other answers hold no text
            answer = await scanned(answer, decided.policy.policy.answers, self._scanner)
            answer = restored(answer, permit.body.originals, decided.request)
        made.first_content_at = self._clock()
        return answer

    def _judge(self, error: TidegateError, lease: Lease) -> None:
        """What a failed attempt says of the address that it was made at."""
        now = self._clock()
        match error:
            case UpstreamUnreachable():
                lease.replica.mark_unreachable(error.message)
                lease.failed(now)
            case UpstreamBusy(details={"asked_s": float(asked_s)}):
                error.retry_after_s = min(asked_s, self._longest_rest_s)
                lease.replica.rest(now + error.retry_after_s)
                lease.unjudged(now)
            case UpstreamBusy(details={"upstream_status": 429}):
                lease.unjudged(now)
            case UpstreamError():
                lease.failed(now)
            case ContextLengthExceeded() | UpstreamBlamedRequest() | AnswerWithheld():
                lease.succeeded(now)
            case _:
                lease.unjudged(now)

    def _start_span(self, exchange: Exchange, step: Step, endpoint: Endpoint) -> Span:
        request = exchange.decided.request
        attributes: dict[str, str | int | bool] = {
            names.TARGET: step.target.name,
            names.ATTEMPT: len(exchange.attempts) + 1,
            names.POLICY_DIGEST: exchange.decided.policy.digest,
            names.POLICY_VERSION: exchange.decided.policy_version,
            names.GEN_AI_OPERATION_NAME: names.OPERATIONS[request.task],
            names.GEN_AI_PROVIDER_NAME: step.target.settings.protocol.value,
            names.SERVER_ADDRESS: endpoint.socket_path or endpoint.base.host,
            names.GEN_AI_REQUEST_MODEL: request.model,
            names.GEN_AI_REQUEST_STREAM: request.stream,
        }
        if endpoint.base.port is not None:
            attributes[names.SERVER_PORT] = endpoint.base.port
        if step.cause is not Cause.FIRST:
            attributes[names.ATTEMPT_CAUSE] = step.cause.value
        return observability.child(
            self._tracer,
            exchange.span,
            f"{names.OPERATIONS[request.task]} {request.model}",
            SpanKind.CLIENT,
            attributes=attributes,
        )


def commit_by(decided: Decided) -> float | None:
    """When the answer must have committed: at its first content, or, where it is not streamed, at its end."""
    deadline = decided.view.deadline
    bounds = [deadline.total_at, deadline.first_content_at if decided.request.stream else None]
    return min((bound for bound in bounds if bound is not None), default=None)

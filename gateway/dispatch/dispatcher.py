"""Attempts in the verdict's order, until one commits. No target outside the verdict's eligible ones is ever asked."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from opentelemetry.trace import Tracer

from gateway.answer import Answer
from gateway.dispatch.attempts import Attempts
from gateway.dispatch.course import Course, Step
from gateway.dispatch.hand_over import Moment, moments
from gateway.dispatch.outbound import Outbound
from gateway.exchange import Decided, Exchange
from gateway.reach_settings import AttemptSettings, TimeoutSettings
from gateway.targets.registry import Targets
from inference_protocol.errors import (
    ContextLengthExceeded,
    DeadlineExceeded,
    NoTargetAvailable,
    TidegateError,
    UpstreamUnreachable,
)
from inference_protocol.outcome import Outcome
from routing_policies.signals.scanner import Scanner

# How soon asking again may help where nobody can say: a supervised runtime is back within seconds.
_USUAL_RETRY_S = 1.0


class Dispatcher:
    """Has targets asked, one after the other or beside each other, until one has answered."""

    def __init__(  # noqa: PLR0913  # the wiring of dispatch, called in one place
        self,
        targets: Targets,
        outbound: Outbound,
        scanner: Scanner,
        timeouts: TimeoutSettings,
        tracer: Tracer,
        *,
        clock: Callable[[], float],
        max_answer_bytes: int,
        attempts: AttemptSettings | None = None,
        wall: Callable[[], float] = time.time,
        draw: random.Random | None = None,
    ) -> None:
        """Wire the dispatcher.

        Args:
            targets: All there are.
            outbound: Makes bodies and headers of attempts.
            scanner: Reads answers, where a policy says so.
            timeouts: Bounds on waiting.
            tracer: Where spans go.
            clock: Monotonic seconds.
            max_answer_bytes: Of an answer that is not streamed.
            attempts: How much is tried.
            wall: Seconds since the epoch.
            draw: Spreads the waits between attempts.
        """
        self._targets = targets
        self._settings = attempts or AttemptSettings()
        self._clock = clock
        self._draw = draw or random.Random()  # noqa: S311  # it keeps no secret
        self._attempts = Attempts(
            outbound,
            scanner,
            timeouts,
            tracer,
            clock=clock,
            wall=wall,
            max_answer_bytes=max_answer_bytes,
            longest_rest_s=self._settings.longest_rest_s,
        )

    async def first_to_commit(self, exchange: Exchange, allowed: tuple[str, ...]) -> Answer:
        """Return the first answer that commits.

        Args:
            exchange: The decided request.
            allowed: Names out of the verdict's eligible targets, in order.

        Raises:
            TidegateError: What the attempts failed with, once nothing is left to try.
        """
        decided = exchange.decided
        targets = [self._targets[name] for name in allowed]
        course = Course(targets, decided.request.model, self._settings, draw=self._draw)
        while (step := self._next(course, decided)) is not None:
            if step.wait_s:
                await asyncio.sleep(step.wait_s)
            beside = moments(decided, step.target.name, self._settings, allowed=allowed, now=self._clock())
            if beside:
                answer = await self._race(exchange, course, step, beside)
                if answer is not None:
                    return answer
                continue
            try:
                return await self._attempts.make(exchange, course, step)
            except TidegateError as exc:
                course.failed(step, exc)
        raise self._failure(course, decided, allowed)

    def _next(self, course: Course, decided: Decided) -> Step | None:
        now = self._clock()
        left_ms = decided.view.deadline.remaining_total_ms(now)
        if left_ms is not None and left_ms <= 0:
            return None
        return course.next(now, float("inf") if left_ms is None else left_ms / 1000)

    async def _race(self, exchange: Exchange, course: Course, step: Step, beside: list[Moment]) -> Answer | None:
        """Make an attempt, and another beside it when its moment comes; the first that commits ends the other.

        Returns:
            Its answer, or `None` where each that ran has failed.
        """
        running = {self._start(exchange, course, step): step}
        answer: Answer | None = None
        try:
            while running and answer is None:
                wait_s = max(0.0, beside[0].at - self._clock()) if beside else None
                done, _ = await asyncio.wait(running, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    moment = beside.pop(0)
                    second = course.beside(self._clock(), moment.cause, moment.would_do)
                    if second is not None:
                        beside.clear()  # two at a time are enough
                        running[self._start(exchange, course, second)] = second
                for task in [task for task in running if task in done]:
                    if answer is None:
                        ended = running.pop(task)
                        try:
                            answer = task.result()
                        except TidegateError as exc:
                            course.failed(ended, exc)
            return answer
        finally:
            await self._end(running, Outcome.CLIENT_CLOSED if answer is None else Outcome.SUPERSEDED)

    def _start(self, exchange: Exchange, course: Course, step: Step) -> asyncio.Task[Answer]:
        return asyncio.create_task(self._attempts.make(exchange, course, step), name=f"attempt-{step.target.name}")

    async def _end(self, running: dict[asyncio.Task[Answer], Step], outcome: Outcome) -> None:
        """End the attempts that are still running, and wait until they have let go."""
        for task, step in running.items():
            step.ends_as = outcome
            task.cancel()
        for task, step in running.items():
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                await self._attempts.drop(step, task.result())

    def _failure(self, course: Course, decided: Decided, allowed: tuple[str, ...]) -> TidegateError:
        failure = course.failure()
        if failure is None:
            return DeadlineExceeded("The budget ran out before an attempt could start.")
        if isinstance(failure, UpstreamUnreachable):
            return _none_reachable(decided, allowed, self._back_in_s(allowed))
        if isinstance(failure, ContextLengthExceeded):
            return _too_long_everywhere(decided, failure)
        return failure

    def _back_in_s(self, allowed: tuple[str, ...]) -> float:
        """When the first of these targets may be asked again, as far as is known."""
        now = self._clock()
        waits = [self._targets[name].standing(now).back_in_s for name in allowed]
        return min((wait for wait in waits if wait is not None), default=_USUAL_RETRY_S)


def _too_long_everywhere(decided: Decided, failure: ContextLengthExceeded) -> ContextLengthExceeded:
    """A target found the prompt too long, and no other that may answer has a larger window."""
    excluded = {name: exclusion.detail for name, exclusion in decided.verdict.excluded.items()}
    why = "".join(f" `{name}` {detail}." for name, detail in excluded.items())
    return ContextLengthExceeded(
        f"{failure.message} No target with a larger window may answer this request.{why}",
        param=failure.param,
        details={**(failure.details or {}), "excluded": excluded},
    )


def _none_reachable(decided: Decided, allowed: tuple[str, ...], back_in_s: float) -> NoTargetAvailable:
    """Nothing was sent anywhere: the same as if the targets had been known to be down."""
    only = "only " if len(allowed) == 1 else ""
    listed = ", ".join(f"`{name}`" for name in allowed)
    return NoTargetAvailable(
        f"This request is labelled {decided.verdict.label.level.word}; {only}{listed} may answer it and cannot be "
        "reached now.",
        retry_after_s=back_in_s,
        details={"unreachable": list(allowed)},
    )

"""What is tried for one request, and in which order. It waits for nothing and sends nothing: it says what comes next.

Only targets that it was given are ever named, and those come from the verdict's eligible ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.exchange import Attempt, Cause
from gateway.reach_settings import AttemptSettings
from gateway.targets.replica import Replica
from gateway.targets.target import Target
from inference_protocol.errors import (
    AnswerWithheld,
    ContextLengthExceeded,
    DeadlineExceeded,
    TidegateError,
    UpstreamBlamedRequest,
    UpstreamBusy,
    UpstreamError,
    UpstreamUnreachable,
)
from inference_protocol.outcome import Outcome

_BACKOFF_S = 0.1  # before a target is sent the same request again that did not say when; doubled each time


@dataclass(eq=False, slots=True)
class Step:
    """One attempt to make.

    Attributes:
        wait_s: Seconds to wait before it.
        without: Addresses of the target that have failed already.
        made: The attempt's account, once it began.
        ends_as: How it ends where it is cancelled.
    """

    target: Target
    cause: Cause
    wait_s: float = 0.0
    without: tuple[Replica, ...] = ()
    made: Attempt | None = None
    ends_as: Outcome = Outcome.CLIENT_CLOSED


@dataclass(slots=True)
class _Tried:
    """What became of one target so far."""

    replicas: list[Replica] = field(default_factory=list)
    times: int = 0
    comes_back_in_s: float | None = None


class Course:
    """The course of one request over the targets that may answer it."""

    def __init__(
        self, targets: Sequence[Target], model: str, settings: AttemptSettings, *, draw: random.Random
    ) -> None:
        """Begin.

        Args:
            targets: Those that may answer, best first.
            model: The public model name.
            settings: How much is tried.
            draw: Spreads the waits, so that requests which failed together do not come back together.
        """
        self.targets = tuple(targets)
        self._model = model
        self._settings = settings
        self._draw = draw
        self._tried: dict[str, _Tried] = {}
        self._made = 0
        self._last: Target | None = None
        self._sent = False  # whether any target may have seen the request
        self._too_small: int | None = None  # a window that the request did not fit
        self._failures: list[TidegateError] = []
        for target in targets:
            target.retries.pay_in()

    def next(self, now: float, left_s: float) -> Step | None:
        """Return what comes next, or `None` where nothing is left.

        Args:
            now: Monotonic seconds.
            left_s: Seconds until the deadline.
        """
        if self._made >= self._settings.most or self._is_final:
            return None
        for find in (self._elsewhere_at_the_same, self._next_target, lambda now: self._once_more(left_s)):
            step = find(now)
            if step is not None and self._is_paid(step, now):
                return self._taken(step)
        return None

    def beside(self, now: float, cause: Cause, wanted: Callable[[Target], bool]) -> Step | None:
        """Return an attempt to make beside one that is running, at another target or address; `None` where none is."""
        if self._made >= self._settings.most:
            return None
        untried = [target for target in self.targets if target.name not in self._tried and self._fits(target)]
        others = [Step(target, cause) for target in untried if wanted(target) and target.pool.can_be_asked(now)]
        if self._last is not None and len(self._last.pool) > 1 and wanted(self._last):
            tried = tuple(self._tried[self._last.name].replicas)
            if self._last.pool.can_be_asked(now, tried):
                others.insert(0, Step(self._last, cause, without=tried))
        step = next(iter(others), None)
        return self._taken(step) if step is not None and step.target.retries.take(now) else None

    def began(self, step: Step, replica: Replica) -> None:
        """An address took the attempt."""
        self._tried[step.target.name].replicas.append(replica)

    def failed(self, step: Step, error: TidegateError) -> None:
        """Take in how an attempt failed."""
        self._failures.append(error)
        tried = self._tried[step.target.name]
        tried.comes_back_in_s = None
        if not isinstance(error, UpstreamUnreachable):
            self._sent = True
        if isinstance(error, UpstreamBusy):
            asked_s = (error.details or {}).get("asked_s")
            backoff_s = _BACKOFF_S * 2 ** (tried.times - 1) * (0.5 + 0.5 * self._draw.random())
            tried.comes_back_in_s = backoff_s if asked_s is None else asked_s
        elif isinstance(error, ContextLengthExceeded):
            known = (error.details or {}).get("window") or step.target.capabilities(self._model).window
            self._too_small = max(self._too_small or 0, known or 0)

    def failure(self) -> TidegateError | None:
        """Return what the caller is told, now that nothing is left; `None` where nothing was tried."""
        for kind in (DeadlineExceeded, UpstreamBlamedRequest, ContextLengthExceeded):
            found = next((failure for failure in self._failures if isinstance(failure, kind)), None)
            if found is not None:
                return found
        return self._failures[-1] if self._failures else None

    @property
    def _is_final(self) -> bool:
        """Whether no other target could mend the last failure."""
        return bool(self._failures) and isinstance(
            self._failures[-1], (DeadlineExceeded, UpstreamBlamedRequest, AnswerWithheld)
        )

    def _elsewhere_at_the_same(self, now: float) -> Step | None:
        target = self._last
        if target is None or len(target.pool) < 2 or not isinstance(self._failures[-1], UpstreamError):
            return None
        tried = tuple(self._tried[target.name].replicas)
        return Step(target, Cause.RETRY, without=tried) if target.pool.can_be_asked(now, tried) else None

    def _next_target(self, _: float) -> Step | None:
        cause = Cause.FALLBACK if self._tried else Cause.FIRST
        untried = (target for target in self.targets if target.name not in self._tried and self._fits(target))
        return next((Step(target, cause) for target in untried), None)

    def _once_more(self, left_s: float) -> Step | None:
        """A target that is busy, once it may be asked again, if that is soon."""
        most_s = min(left_s, self._settings.longest_wait_s)
        waits = [
            (tried.comes_back_in_s, target)
            for target in self.targets
            if (tried := self._tried.get(target.name)) is not None
            and tried.comes_back_in_s is not None
            and tried.comes_back_in_s < most_s
        ]
        if not waits:
            return None
        wait_s, target = min(waits, key=lambda each: each[0])
        return Step(target, Cause.RETRY, wait_s=wait_s)

    def _fits(self, target: Target) -> bool:
        window = target.capabilities(self._model).window
        return self._too_small is None or window is None or window > self._too_small

    def _is_paid(self, step: Step, now: float) -> bool:
        """Whether the target's budget has room. What nobody has seen yet costs nothing wherever it is sent."""
        return not self._sent or step.target.retries.take(now)

    def _taken(self, step: Step) -> Step:
        self._made += 1
        self._last = step.target
        self._tried.setdefault(step.target.name, _Tried()).times += 1
        return step

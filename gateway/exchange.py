"""One request on its way through the gateway: what each hop adds, for the settlement at the end to account for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from opentelemetry.trace import Span

from gateway.answer import AnswerFacts
from gateway.policies.holder import Arm
from gateway.policies.shadow import Asked
from gateway.principal import Principal
from gateway.quota import NO_GRANT, Grant
from gateway.targets.pool import Lease
from inference_protocol import telemetry_names as names
from inference_protocol.errors import AnswerWithheld, TidegateError
from inference_protocol.outcome import Outcome
from inference_protocol.request import InferenceRequest
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.label import NOTHING, Component
from routing_policies.snapshot import Snapshot
from routing_policies.verdict import Verdict
from routing_policies.view import RequestView


@dataclass(frozen=True, slots=True)
class Decided:
    """A request with everything that its decision was made from, and the decision.

    Attributes:
        policy_version: The number of the policy's version in this installation.
        arm: As what that policy decided it.
    """

    request: InferenceRequest
    view: RequestView
    policy: LoadedPolicy
    snapshot: Snapshot
    verdict: Verdict
    policy_version: int = 0
    arm: Arm = Arm.STABLE


class Cause(StrEnum):
    """Why an attempt was made."""

    FIRST = "first"
    RETRY = "retry"  # the same target again, at another address or after a while
    FALLBACK = "fallback"  # the next target, after one that failed
    HEDGE = "hedge"  # beside one that is slower than usual
    HAND_OVER = "hand-over"  # beside one that is slow, while this one can still make the deadline


@dataclass(slots=True)
class Attempt:
    """One attempt on one target.

    Attributes:
        endpoint: The address that took it; empty where none did.
        started_at, first_content_at, ended_at: Monotonic seconds.
        in_flight: Attempts at the target when it began, this one included.
        bytes_out: Length of the body that was sent.
        error: Code of the error it ended with.
        facts: Of its answer, once that has committed.
        lease: Its place at the address.
    """

    target: str
    started_at: float
    span: Span
    in_flight: int
    bytes_out: int = 0
    first_content_at: float | None = None
    ended_at: float | None = None
    outcome: Outcome | None = None
    error: str | None = None
    facts: AnswerFacts | None = None
    cause: Cause = Cause.FIRST
    endpoint: str = ""
    lease: Lease | None = None

    def end(self, now: float, outcome: Outcome, error: str | None = None) -> None:
        """Say how it ended."""
        self.ended_at = now
        self.outcome = outcome
        self.error = error

    def close_span(self) -> None:
        """End the span with what became known."""
        if self.outcome is not None:
            self.span.set_attribute(names.OUTCOME, self.outcome.value)
        self.span.end()


@dataclass(slots=True)
class Exchange:
    """One request and all that happens to it.

    Attributes:
        request_id: Ours; also the id of its decision.
        client_request_id: What the caller calls it, where it said so.
        route: The path it was sent to.
        received_at: Monotonic seconds.
        received_wall_s: Seconds since the epoch, for records.
        span: The SERVER span.
        clock: Monotonic seconds.
        grant: What it has of its caller's allowances.
        decision: Set once it is made.
        parts_ms: Milliseconds that each part of the way took (`parse`, `scan`, `decide`, `detect`, `record`).
        shadow: A policy that is to be asked what it would have decided.
        deferred_id: Of the request that was put off, where this is its turn.
        kept_taint: What its conversation was labelled as it was put off.
        committed_at: Monotonic seconds when the response head went to the caller.
    """

    request_id: str
    client_request_id: str | None
    route: str
    received_at: float
    received_wall_s: float
    span: Span
    clock: Callable[[], float]
    principal: Principal | None = None
    grant: Grant = NO_GRANT
    decision: Decided | None = None
    shadow: Asked | None = None
    deferred_id: str | None = None
    kept_taint: Component = NOTHING
    attempts: list[Attempt] = field(default_factory=list)
    parts_ms: dict[str, float] = field(default_factory=dict)
    committed_at: float | None = None
    outcome: Outcome | None = None
    error: TidegateError | None = None

    @property
    def decided(self) -> Decided:
        """The decision, for those who come after it.

        Raises:
            RuntimeError: It has not been made yet.
        """
        if self.decision is None:
            raise RuntimeError("the request has not been decided")
        return self.decision

    @property
    def answered(self) -> Attempt | None:
        """The attempt whose answer the caller gets, once one has committed."""
        if self.committed_at is None:
            return None
        won = (each for each in reversed(self.attempts) if each.outcome is not Outcome.SUPERSEDED)
        return next((each for each in won if each.facts is not None), None)

    @property
    def answer_findings(self) -> Mapping[str, int]:
        """Kind to number of what was found in the answer that the caller gets, or that was withheld whole."""
        withheld = (each for each in self.attempts if each.error == AnswerWithheld.code)
        read = self.answered or next(withheld, None)
        return {} if read is None or read.facts is None else read.facts.findings

    @property
    def wall_ns(self) -> int:
        """Nanoseconds since the epoch, for spans that begin now."""
        return int((self.received_wall_s + self.clock() - self.received_at) * 1e9)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Note how long a part of the way takes, also where it fails."""
        started = self.clock()
        try:
            yield
        finally:
            self.parts_ms[part] = self.parts_ms.get(part, 0.0) + (self.clock() - started) * 1000

    def commit(self) -> None:
        """Note that from now on this answer is the one that the caller gets."""
        self.committed_at = self.clock()

    def fail(self, error: TidegateError) -> None:
        """Note the error that the caller is told of."""
        self.error = error
        self.outcome = Outcome.of(error)

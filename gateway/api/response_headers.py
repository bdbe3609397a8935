"""Response headers: who answered, why, by which policy, and how long each part took."""

from __future__ import annotations

from gateway.exchange import Attempt, Cause, Decided, Exchange
from gateway.policies.holder import Arm
from inference_protocol import headers
from inference_protocol.errors import TidegateError
from serving import answers


def response_headers(exchange: Exchange) -> dict[str, str]:
    """The headers of an answer that has committed."""
    attempt = exchange.answered
    assert attempt is not None, "the answer commits before its head is made"
    assert exchange.committed_at is not None, "the answer commits before its head is made"
    timing = {**exchange.parts_ms, "ttft": (exchange.committed_at - exchange.received_at) * 1000}
    execution = attempt.facts.execution if attempt.facts is not None else None
    return {
        **decision_headers(exchange),
        **exchange.grant.headers(),
        **({} if execution is None else {headers.PROVIDER: execution.header}),
        headers.TARGET: attempt.target,
        headers.REASON: _reason(exchange, attempt),
        headers.SERVER_TIMING: ", ".join(f"{part};dur={ms:.2f}" for part, ms in timing.items()),
    }


def error_headers(exchange: Exchange, error: TidegateError) -> dict[str, str]:
    """The headers of an error answer."""
    found = {**decision_headers(exchange), **exchange.grant.headers(), **answers.error_headers(error)}
    reason = (error.details or {}).get("reason")
    if reason is not None:
        found[headers.REASON] = reason
    return found


def decision_headers(exchange: Exchange) -> dict[str, str]:
    """The request's id and, once it is decided, what was decided of it."""
    found = {headers.REQUEST_ID: exchange.request_id}
    if exchange.decision is not None:
        verdict = exchange.decision.verdict
        scores = verdict.scores
        found[headers.DECISION] = verdict.digest[:16]
        found[headers.POLICY] = _policy(exchange.decision)
        found[headers.LABEL] = "; ".join([verdict.label.level.word, *sorted(verdict.label.counts)])
        found[headers.SCORES] = f"latency={scores.latency:.3f}, privacy={scores.privacy:.3f}, size={scores.size:.3f}"
    return found


def _policy(decided: Decided) -> str:
    arm = "" if decided.arm is Arm.STABLE else f"; {decided.arm}"
    loaded = decided.policy
    return f"{loaded.policy.name}@{loaded.digest[:12]}; version={decided.policy_version}{arm}"


def _reason(exchange: Exchange, answered: Attempt) -> str:
    """Why this target: the verdict's reason, or which target it stands in for and what became of that one."""
    first = exchange.attempts[0]
    if first is answered or first.target == answered.target:
        return exchange.decided.verdict.reason
    if answered.cause in {Cause.HEDGE, Cause.HAND_OVER}:
        return f"{answered.cause}; from={first.target}"
    return f"fallback; from={first.target}; error={first.error}"

"""The two records of a request. They hold ids, measures and reasons, and no text of the request.

Classes that hold no text of the request (scores, terms, predictions, needs, hints) go in whole. Of all others each
field is named here, so that a field added elsewhere does not find its way to the disk by itself. A decision holds all
that it was made from, so that it can be made again, also by another policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from opentelemetry.trace import format_trace_id

from gateway.answer import AnswerFacts
from gateway.exchange import Attempt, Decided, Exchange
from gateway.principal import Principal
from routing_policies.signals.label import Component, Label
from routing_policies.snapshot import TargetSnapshot
from routing_policies.verdict import Exclusion
from routing_policies.view import RequestView

# Of the records' layout; raised when a field changes its meaning.
VERSION = 1

_COMPONENTS = ("declared", "key", "taint", "findings", "uninspected")


def decision_record(exchange: Exchange) -> dict[str, Any]:
    """Return what was decided and why, as values that `orjson` writes; the request has been decided."""
    decided = exchange.decided
    verdict, view = decided.verdict, decided.view
    return {
        "kind": "decision",
        "version": VERSION,
        "time": _utc(exchange.received_wall_s),
        **_ids(exchange),
        "tenant": view.tenant.id,
        "roles": sorted(view.tenant.roles),
        "residency": view.tenant.residency,
        "caller": exchange.principal.id if exchange.principal is not None else None,
        "task": view.task,
        "model": view.model,
        "stream": view.stream,
        "needs": view.needs,
        "client": view.hints,
        "label": _label(verdict.label, exchange.principal),
        "size": _size(view),
        "budget": _budget(view),
        "decided_after_ms": (decided.snapshot.now - view.deadline.received_at) * 1000,
        "policy": _policy(decided),
        "eligible": [{"target": e.target, "transform": e.transform} for e in verdict.eligible],
        "excluded": {target: _exclusion(exclusion) for target, exclusion in verdict.excluded.items()},
        "reason": verdict.reason,
        "rules": verdict.rules,
        "notes": verdict.notes,
        "scores": verdict.scores,
        "terms": dict(verdict.terms),
        "weights": dict(verdict.weights),
        "device": decided.snapshot.device,
        "targets": {name: _target(target) for name, target in decided.snapshot.targets.items()},
        "predictions": {name: target.prediction for name, target in decided.snapshot.targets.items()},
        "seed": decided.snapshot.seed,
        "digest": verdict.digest,
    }


def outcome_record(exchange: Exchange, now: float, shadow: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return how a request ended.

    Args:
        exchange: The request, settled: it has an outcome.
        now: Monotonic seconds at which it was over.
        shadow: What a policy on trial would have decided.
    """
    duration_s = now - exchange.received_at
    answered = exchange.answered
    facts = answered.facts if answered is not None else None
    return {
        "kind": "outcome",
        "version": VERSION,
        "time": _utc(exchange.received_wall_s + duration_s),
        **_ids(exchange),
        "route": exchange.route,
        "tenant": exchange.principal.tenant.id if exchange.principal is not None else None,
        "policy": _policy(exchange.decision) if exchange.decision is not None else None,
        "outcome": exchange.outcome,
        "error": exchange.error.code if exchange.error is not None else None,
        "target": answered.target if answered is not None else None,
        "duration_ms": _ms(duration_s),
        "commit_ms": _ms_between(exchange.received_at, exchange.committed_at),
        "parts_ms": {part: round(ms, 3) for part, ms in exchange.parts_ms.items()},
        "finish_reason": facts.finish_reason if facts is not None else None,
        "tokens": _tokens(facts),
        "answer_findings": dict(exchange.answer_findings),
        "attempts": [_attempt(attempt, now) for attempt in exchange.attempts],
        "shadow": shadow,
    }


def _policy(decided: Decided) -> dict[str, Any]:
    policy = decided.policy
    return {
        "name": policy.policy.name,
        "digest": policy.digest,
        "version": decided.policy_version,
        "arm": decided.arm,
    }


def _ids(exchange: Exchange) -> dict[str, Any]:
    return {
        "request_id": exchange.request_id,
        "client_request_id": exchange.client_request_id,
        "deferred_id": exchange.deferred_id,
        "trace_id": format_trace_id(exchange.span.get_span_context().trace_id),
    }


def _label(label: Label, principal: Principal | None) -> dict[str, Any]:
    own = principal.uninspected if principal is not None else {}
    components = {name: getattr(label, name) for name in _COMPONENTS}
    return {
        "class": label.level.word,
        "tags": sorted(label.tags),
        "default": label.default.word,
        "components": {name: _component(c) for name, c in components.items() if c.level is not None or c.tags},
        "findings": dict(label.counts),
        "uninspected": sorted(label.causes),
        "fixed": sorted(label.fixed),
        "key_causes": {cause.value: level.word for cause, level in own.items()},
    }


def _component(component: Component) -> dict[str, Any]:
    return {"class": component.level.word if component.level is not None else None, "tags": sorted(component.tags)}


def _size(view: RequestView) -> dict[str, Any]:
    tokens = view.size.tokens
    return {
        "tokens": [tokens.least, tokens.likely, tokens.most],
        "output_cap": view.output_cap,
        "cap_is_own": view.cap_is_own,
        "body_bytes": view.size.body_bytes,
        "parts": dict(view.size.parts),
    }


def _budget(view: RequestView) -> dict[str, Any]:
    deadline = view.deadline
    return {
        "total_ms": deadline.remaining_total_ms(deadline.received_at),
        "ttft_ms": deadline.remaining_first_content_ms(deadline.received_at),
    }


def _target(target: TargetSnapshot) -> dict[str, Any]:
    """What a target could do and whether it was there: a candidate policy is replayed on it."""
    can = target.capabilities
    able = {name: getattr(can, name) for name in ("tools", "json_schema", "images", "audio", "logprobs")}
    return {
        "health": target.health,
        "served_model": can.served_model,
        "window": can.window,
        "tasks": sorted(can.tasks),
        "waiting": target.waiting,
        "back_in_s": target.back_in_s,
        "can": [name for name, yes in able.items() if yes],
        "max_n": can.max_n,
        "parameters": sorted(can.parameters),
    }


def _exclusion(exclusion: Exclusion) -> dict[str, Any]:
    return {"kind": exclusion.kind, "rule": exclusion.rule, "detail": exclusion.detail}


def _attempt(attempt: Attempt, now: float) -> dict[str, Any]:
    return {
        "target": attempt.target,
        "endpoint": attempt.endpoint,
        "cause": attempt.cause,
        "outcome": attempt.outcome,
        "error": attempt.error,
        "in_flight": attempt.in_flight,
        "bytes_out": attempt.bytes_out,
        "first_content_ms": _ms_between(attempt.started_at, attempt.first_content_at),
        "duration_ms": _ms((attempt.ended_at or now) - attempt.started_at),
        "tokens": _tokens(attempt.facts),
    }


def _tokens(facts: AnswerFacts | None) -> dict[str, int] | None:
    """As the target reported them; of an answer that broke off, the events that carried text stand for tokens."""
    if facts is None:
        return None
    usage = facts.usage
    if usage is None:
        return {"output": facts.chunks} if facts.chunks else None
    return {"input": usage.prompt_tokens, "cached": usage.cached_tokens, "output": usage.completion_tokens}


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _ms_between(start_s: float, end_s: float | None) -> float | None:
    return None if end_s is None else _ms(end_s - start_s)

"""What a request may take at worst, in tokens, and what it has taken once it is over."""

from __future__ import annotations

from collections.abc import Collection

from gateway.access.account import Need
from gateway.exchange import Decided, Exchange
from inference_protocol.outcome import Outcome
from inference_protocol.request import GENERATES, InferenceRequest, Task
from routing_policies.view import RequestView

# Ends of requests for which a target may have worked, though nothing of its answer was counted.
_GIVEN_UP = frozenset({Outcome.CLIENT_CLOSED, Outcome.DEADLINE_EXCEEDED})


def need_of(request: InferenceRequest, view: RequestView, windows: Collection[int | None]) -> Need:
    """Return what a request may take: its prompt and its cap for each answer, or whole windows where it has no cap.

    Args:
        request: The request.
        view: What it measures.
        windows: Those of the targets that may answer. One of unknown window may answer without end.
    """
    prompt = view.size.tokens
    if view.task not in GENERATES:
        return Need(prompt.most, prompt.least)
    answers = view.needs.n * _prompts(request)
    if view.cap_is_own:
        output = view.output_cap * answers
        return Need(prompt.most + output, prompt.least + output)
    known = [window for window in windows if window is not None]
    if not known or len(known) < len(windows):
        return Need(None, prompt.least)
    return Need(max(known) * answers, prompt.least)


def used_by(exchange: Exchange) -> int:
    """Return the tokens that a request has taken, by its target's account where it gave one."""
    answered = exchange.answered
    if answered is not None and answered.facts is not None:
        facts = answered.facts
        if facts.usage is not None:
            return facts.usage.prompt_tokens + facts.usage.completion_tokens
        return _prompt(exchange.decided) + facts.chunks
    was_sent = any(attempt.bytes_out for attempt in exchange.attempts)
    return _prompt(exchange.decided) if was_sent and exchange.outcome in _GIVEN_UP else 0


def _prompt(decided: Decided) -> int:
    return decided.view.size.tokens.likely


def _prompts(request: InferenceRequest) -> int:
    prompt = request.tree.get("prompt")
    several = request.task is Task.COMPLETION and isinstance(prompt, list) and not isinstance(prompt[0], int)
    return len(prompt) if several and isinstance(prompt, list) else 1

"""What is counted of each request, once, when it is settled."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from opentelemetry.trace import Span

from gateway.accounts.account import joules, money
from gateway.answer import AnswerFacts
from gateway.exchange import Attempt, Cause, Decided, Exchange
from gateway.metrics import instruments
from gateway.targets.registry import Targets
from gateway.telemetry_settings import GenAiConventions
from inference_protocol import paths
from inference_protocol import telemetry_names as names
from inference_protocol.request import Task
from observability.meters import Counter, Histogram, InstrumentKind, Meters
from routing_policies.policy.model import Kind
from routing_policies.signals.label import DataClass
from routing_policies.transforms import label_as_sent

# The work of each route that gives an answer, also to those who were refused before anybody read what they sent.
_TASKS: Mapping[str, Task] = {
    paths.CHAT_COMPLETIONS: Task.CHAT,
    paths.COMPLETIONS: Task.COMPLETION,
    paths.EMBEDDINGS: Task.EMBEDDING,
    paths.MODEL_INFER: Task.TENSOR,
    paths.VERSION_INFER: Task.TENSOR,
}
_PROVIDER = "tidegate"
_OTHER = "other"


class RequestMetrics:
    """Counts settled requests and their attempts."""

    def __init__(self, meters: Meters, targets: Targets, conventions: GenAiConventions, *, tenants: int) -> None:
        """Register the instruments.

        Args:
            meters: Where.
            targets: All there are.
            conventions: Which names the metrics of attempts have.
            tenants: How many tenants are told apart; those that come later are `other`.
        """
        self._providers = {target.name: target.settings.protocol.value for target in targets}
        self._tenants = _Tenants(tenants)
        self._requests = meters.counter(instruments.REQUESTS)
        self._attempts = meters.counter(instruments.ATTEMPTS)
        self._fallbacks = meters.counter(instruments.FALLBACKS)
        self._egress = meters.counter(instruments.EGRESS)
        self._restricted = meters.counter(instruments.RESTRICTED_TO_CLOUD)
        self._cost = meters.counter(instruments.COST)
        self._energy = meters.counter(instruments.ENERGY)
        self._parts = meters.histogram(instruments.PART_DURATION)
        self._duration = meters.histogram(instruments.SERVER_DURATION)
        self._ttft = meters.histogram(instruments.SERVER_TTFT)
        self._tpot = meters.histogram(instruments.SERVER_TPOT)
        client = instruments.client_instruments(conventions)
        self._attempt_duration = meters.histogram(client.duration)
        self._first_chunk = meters.histogram(client.first_chunk)
        self._tokens = _Tokens.registered(meters, client)

    def count(self, exchange: Exchange, now: float) -> None:
        """Count a request that has ended at `now`, in monotonic seconds, and its attempts, each once."""
        assert exchange.outcome is not None, "it is settled"
        decided, answered = exchange.decision, exchange.answered
        self._requests.add(
            1,
            (
                exchange.route,
                exchange.outcome.value,
                answered.target if answered is not None else "",
                decided.verdict.label.level.word if decided is not None else "",
                self._tenants.told_apart(exchange),
            ),
        )
        for part, ms in exchange.parts_ms.items():
            self._parts.record(ms / 1000, (part,))
        task = _TASKS.get(exchange.route)
        if task is None:
            return
        operation = names.OPERATIONS[task]
        self._as_server(exchange, answered, operation, now)
        if decided is not None:
            for attempt in exchange.attempts:
                self._count_attempt(attempt, decided, operation)
            self._count_fallbacks(exchange.attempts)

    def outcomes(self) -> dict[str, Any]:
        """How many requests and attempts ended in which way since the start."""
        requests: dict[str, int] = {}
        for (_, outcome, *_), count in self._requests.sums().items():
            requests[outcome] = requests.get(outcome, 0) + int(count)
        attempts: dict[str, dict[str, int]] = {}
        for (target, _, outcome), count in self._attempts.sums().items():
            of_target = attempts.setdefault(target, {})
            of_target[outcome] = of_target.get(outcome, 0) + int(count)
        return {"requests": requests, "attempts": attempts}

    def _as_server(self, exchange: Exchange, answered: Attempt | None, operation: str, now: float) -> None:
        """What the caller saw."""
        decided, committed_at = exchange.decision, exchange.committed_at
        model = decided.request.model if decided is not None else ""
        error = exchange.error.error_type if exchange.error is not None else ""
        of = (operation, _PROVIDER, model)
        self._duration.record(now - exchange.received_at, (*of, error), exchange.span)
        if committed_at is None or decided is None or not decided.request.stream:
            return
        self._ttft.record(committed_at - exchange.received_at, of, exchange.span)
        usage = answered.facts.usage if answered is not None and answered.facts is not None else None
        if usage is not None and usage.completion_tokens > 1:
            self._tpot.record((now - committed_at) / (usage.completion_tokens - 1), of, exchange.span)

    def _count_attempt(self, attempt: Attempt, decided: Decided, operation: str) -> None:
        """What an attempt saw of its target."""
        assert attempt.outcome is not None, "it has ended"
        assert attempt.ended_at is not None, "it has ended"
        target = attempt.target
        of = (operation, self._providers[target], decided.request.model, target)
        self._attempts.add(1, (target, attempt.cause.value, attempt.outcome.value))
        self._attempt_duration.record(attempt.ended_at - attempt.started_at, (*of, attempt.error or ""), attempt.span)
        if attempt.first_content_at is not None and decided.request.stream:
            self._first_chunk.record(attempt.first_content_at - attempt.started_at, of, attempt.span)
        policy = decided.policy
        promise = policy.policy.targets[target]
        if promise.power is not None:
            self._energy.add(joules(promise.power, attempt.ended_at - attempt.started_at), (target,))
        if attempt.facts is not None:
            read, _, written = found = _tokens(attempt.facts)
            self._tokens.count(found, of, attempt.span)
            if promise.price is not None:
                self._cost.add(money(promise.price, read, written), (target, promise.price.currency))
        if attempt.bytes_out:
            self._egress.add(attempt.bytes_out, (target, promise.kind.value))
            if promise.kind is Kind.CLOUD:
                sent = label_as_sent(promise, decided.verdict.label, policy.label_rules, decided.view.task)
                self._restricted.add(sent.level is DataClass.RESTRICTED)

    def _count_fallbacks(self, attempts: list[Attempt]) -> None:
        for before, attempt in pairwise(attempts):
            if attempt.cause is Cause.FALLBACK:
                self._fallbacks.add(1, (before.target, attempt.target, before.error or ""))


def _tokens(facts: AnswerFacts) -> tuple[int, int, int]:
    """Tokens read, those of them from a cache, and written. Of an answer that broke off, its pieces stand for them."""
    usage = facts.usage
    return (
        (0, 0, facts.chunks) if usage is None else (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
    )


class _Tokens:
    """Tokens of attempts, under the names of one generation of conventions."""

    def __init__(
        self, counters: tuple[Counter, ...], sizes: tuple[Histogram, ...], histogram: Histogram | None = None
    ) -> None:
        self._counters = counters
        self._sizes = sizes
        self._histogram = histogram

    @classmethod
    def registered(cls, meters: Meters, client: instruments.ClientInstruments) -> _Tokens:
        if client.tokens[0].kind is InstrumentKind.HISTOGRAM:
            return cls((), (), meters.histogram(client.tokens[0]))
        return cls(tuple(map(meters.counter, client.tokens)), tuple(map(meters.histogram, client.sizes)))

    def count(self, found: tuple[int, int, int], of: tuple[str, ...], span: Span) -> None:
        """Count what an answer took."""
        read, _, written = found
        if self._histogram is not None:
            self._histogram.record(read, (*of, "input"), span)
            self._histogram.record(written, (*of, "output"), span)
            return
        for histogram, tokens in zip(self._sizes, (read, written), strict=True):
            histogram.record(tokens, of, span)
        for counter, tokens in zip(self._counters, found, strict=True):
            if tokens:
                counter.add(tokens, of)


class _Tenants:
    """Tells so many tenants apart, the first that come."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def told_apart(self, exchange: Exchange) -> str:
        """The tenant's id, or a word for all others; nothing where none are told apart, or nobody knows the caller."""
        if exchange.principal is None or not self._limit:
            return ""
        tenant = exchange.principal.tenant.id
        if tenant not in self._known:
            if len(self._known) >= self._limit:
                return _OTHER
            self._known.add(tenant)
        return tenant

"""Steps 3 to 6 of the way of a request, in order. Each is one call into the room that knows how."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from opentelemetry.trace import SpanKind, Tracer
from opentelemetry.util.types import Attributes, AttributeValue

import observability
from gateway.access.worst_case import need_of
from gateway.answer import Answer
from gateway.detectors.second_tier import SecondTier
from gateway.dispatch.dispatcher import Dispatcher
from gateway.exchange import Decided, Exchange
from gateway.measure import Measured, Measurer
from gateway.policies.draw import Seeds
from gateway.policies.holder import PolicyHolder, Shadow
from gateway.policies.shadow import Asked
from gateway.records.builders import decision_record
from gateway.records.log import RecordLog
from gateway.state.taint import Taints
from gateway.targets.registry import Targets
from inference_protocol import telemetry_names as names
from inference_protocol.errors import RecordFailed
from inference_protocol.request import InferenceRequest
from routing_policies.decide import decide
from routing_policies.eligibility import needs_exact_count
from routing_policies.policy.model import Kind
from routing_policies.refusal import refusal
from routing_policies.view import RequestView


class Pipeline:
    """From a parsed request to an answer that has committed."""

    def __init__(  # noqa: PLR0913  # the wiring of the way, called in one place
        self,
        policies: PolicyHolder,
        measurer: Measurer,
        second_tier: SecondTier,
        taints: Taints,
        targets: Targets,
        records: RecordLog,
        dispatcher: Dispatcher,
        tracer: Tracer,
        *,
        clock: Callable[[], float],
        seeds: Seeds,
    ) -> None:
        """Wire the rooms; `clock` gives monotonic seconds, `seeds` what a verdict may draw from."""
        self._policies = policies
        self._measurer = measurer
        self._second_tier = second_tier
        self._taints = taints
        self._targets = targets
        self._records = records
        self._dispatcher = dispatcher
        self._tracer = tracer
        self._clock = clock
        self._seeds = seeds

    async def decide(self, exchange: Exchange, request: InferenceRequest, headers: Mapping[str, str]) -> Decided:
        """Steps 3 and 4: measure, then decide.

        Raises:
            InvalidHeader: A header cannot be read.
        """
        assert exchange.principal is not None, "identify comes first"
        in_force = self._policies.in_force
        seed = self._seeds.seed(in_force.canary, exchange.principal.tenant.id, request)
        version, arm = in_force.deciding(seed)
        policy = version.loaded
        started_ns = exchange.wall_ns
        with exchange.timed("scan"):
            measured = await self._measurer.measure(request, headers, exchange.principal, exchange.received_at)
            measured = measured.also_tainted(exchange.kept_taint)
            view = measured.view(policy)
        with exchange.timed("decide"):
            windows = self._targets.windows(view.model)
            if needs_exact_count(policy, view, windows) or _is_tight(exchange, request, view, windows):
                measured = await self._measurer.counted(measured)
                view = replace(view, size=measured.size)
            snapshot = self._targets.snapshot(
                view.task, view.model, view.size, view.output_cap, now=self._clock(), seed=seed
            )
            verdict = decide(policy, view, snapshot)
        if self._second_tier.could_matter(measured.parts, policy, view, snapshot, verdict):
            with exchange.timed("detect"):
                scan = await self._second_tier.read(measured.parts, measured.scan)
            with exchange.timed("decide"):
                measured = replace(measured, scan=scan)
                view = replace(view, label=measured.view(policy).label)
                snapshot = replace(snapshot, now=self._clock())
                verdict = decide(policy, view, snapshot)
        decided = Decided(request, view, policy, snapshot, verdict, version.number, arm)
        exchange.decision = decided
        exchange.shadow = _asked(in_force.shadow, seed, measured)
        self._trace_decision(exchange, decided, started_ns)
        return decided

    async def answer(self, exchange: Exchange) -> Answer:
        """Steps 5 and 6: write the decision down, then make attempts until one commits.

        Raises:
            TidegateError: Nothing may answer, or everything that may has failed.
        """
        decided = exchange.decided
        allowed = [e.target for e in decided.verdict.eligible]
        self._reserve(exchange, allowed)
        await self._remember(decided)
        with exchange.timed("record"):
            try:
                await self._records.write_before_egress(decision_record(exchange))
            except RecordFailed:
                # What cannot be written down may not leave this box.
                allowed = [name for name in allowed if decided.policy.policy.targets[name].kind is Kind.EDGE]
                if decided.verdict.eligible and not allowed:
                    raise
        if not allowed:
            raise refusal(decided.verdict, decided.policy)
        return await self._dispatcher.first_to_commit(exchange, tuple(allowed))

    async def put_off(self, exchange: Exchange) -> None:
        """Write down that a request was decided, and its label for the turns that follow it, though nobody answers yet.

        Raises:
            RecordFailed: It cannot be written.
        """
        await self._remember(exchange.decided)
        await self._records.write_before_egress(decision_record(exchange))

    def _reserve(self, exchange: Exchange, allowed: Sequence[str]) -> None:
        """Take the tokens that the answer may take at worst from what its caller has."""
        if allowed and exchange.grant.counts_tokens:
            request, view = exchange.decided.request, exchange.decided.view
            windows = self._targets.windows(view.model)
            exchange.grant.reserve(need_of(request, view, [windows[name] for name in allowed]))

    async def _remember(self, decided: Decided) -> None:
        label = decided.view.label
        await self._taints.remember(decided.request, decided.view.tenant.id, label.kept_for_later_turns)

    def _trace_decision(self, exchange: Exchange, decided: Decided, started_ns: int) -> None:
        name = f"route {decided.policy.policy.name}"
        attributes = _of_decision(decided)
        observability.child(self._tracer, exchange.span, name, SpanKind.INTERNAL, started_ns, attributes).end()


def _is_tight(
    exchange: Exchange, request: InferenceRequest, view: RequestView, windows: Mapping[str, int | None]
) -> bool:
    """Whether the caller's allowance is too small for the safe bound on the prompt, and may do for its true length."""
    return exchange.grant.counts_tokens and exchange.grant.would_refuse(need_of(request, view, windows.values()))


def _asked(shadow: Shadow | None, seed: int, measured: Measured) -> Asked | None:
    """The policy that is asked once the request is over, and what it then sees."""
    if shadow is None or not shadow.draws(seed):
        return None
    return Asked(shadow.version, functools.partial(measured.view, shadow.version.loaded))


def _of_decision(decided: Decided) -> Attributes:
    """What its span tells of a decision; budgets as they were when the request came."""
    verdict, deadline = decided.verdict, decided.view.deadline
    first = verdict.eligible[0].target if verdict.eligible else None
    prediction = decided.snapshot.targets[first].prediction if first is not None else None
    found: dict[str, AttributeValue | None] = {
        names.POLICY_NAME: decided.policy.policy.name,
        names.POLICY_DIGEST: decided.policy.digest,
        names.POLICY_VERSION: decided.policy_version,
        names.POLICY_ARM: decided.arm.value,
        names.LABEL_CLASS: verdict.label.level.word,
        names.LABEL_TAGS: sorted(verdict.label.tags),
        names.TARGET: first or "none",
        names.REASON: verdict.reason,
        names.SCORE_LATENCY: verdict.scores.latency,
        names.SCORE_PRIVACY: verdict.scores.privacy,
        names.SCORE_SIZE: verdict.scores.size,
        names.BUDGET_TOTAL_MS: deadline.remaining_total_ms(deadline.received_at),
        names.BUDGET_TTFT_MS: deadline.remaining_first_content_ms(deadline.received_at),
        names.PREDICTED_TTFT_MS: prediction.ttft_ms if prediction else None,
        names.PREDICTED_TOTAL_MS: prediction.total_ms if prediction else None,
    }
    return {name: value for name, value in found.items() if value is not None}

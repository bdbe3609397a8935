"""The real dispatcher over scripted connections in virtual time: what it asks, and when, and what it makes of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.trace import INVALID_SPAN, NoOpTracer

from gateway.answer import Answer, BufferedAnswer
from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.outbound import Outbound
from gateway.egress.pseudonyms import Pseudonymizer
from gateway.exchange import Decided, Exchange
from gateway.reach_settings import AttemptSettings, TimeoutSettings
from gateway.state.keys import Keys
from gateway.targets.registry import Targets
from gateway.targets.target import Target
from inference_protocol.errors import TidegateError
from inference_protocol.openai_chat import parse_chat
from routing_policies.policy.loader import load_text
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.label import DataClass, Label
from routing_policies.signals.scanner import build_scanner
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.snapshot import Prediction, Snapshot, TargetSnapshot
from routing_policies.verdict import Eligible
from routing_policies.view import RequestView
from tests.support.scripted_runtime import MODEL
from tests.support.scripted_transport import Act, Sent, scripted_target
from tests.support.verdicts import verdict_for

WALL_S = 1_700_000_000.0
POLICY = load_text(
    """
apiVersion: tidegate/v1
name: driven
defaults: {class: public}
targets:
  edge: {kind: edge, clearance: restricted}
  cloud: {kind: cloud, clearance: internal}
  dc: {kind: onprem, clearance: internal}
""",
    "driven.yaml",
)


def takes(ttft_ms: float, total_ms: float | None = None) -> Prediction:
    """A prediction that is nearly certain."""
    total_ms = ttft_ms if total_ms is None else total_ms
    return Prediction(ttft_ms, total_ms, 1e-9, 1e-9, 10.0, (ttft_ms, total_ms))


@dataclass
class Driven:
    """What became of one request."""

    exchange: Exchange
    sent: list[Sent]
    sent_at: list[float]
    body: bytes | None = None
    error: TidegateError | None = None
    took_s: float = 0.0

    @property
    def asked(self) -> list[str]:
        return [each.target for each in self.sent]

    @property
    def outcomes(self) -> list[tuple[str, str, str | None]]:
        found = []
        for each in self.exchange.attempts:
            found.append((each.target, each.cause.value, each.outcome.value if each.outcome is not None else None))
        return found


@dataclass
class Drive:
    """A house of targets by script; `target(name)` gives one."""

    clock: Callable[[], float]
    scripts: Mapping[str, Sequence[Act]]
    attempts: AttemptSettings = field(default_factory=AttemptSettings)
    addresses: int = 1
    options: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sent: list[Sent] = []
        self.sent_at: list[float] = []
        self.targets = Targets(
            {
                name: scripted_target(
                    name,
                    script,
                    self.sent,
                    on_sent=lambda: self.sent_at.append(self.clock()),
                    addresses=self.addresses,
                    clock=self.clock,
                    **self.options.get(name, {}),
                )
                for name, script in self.scripts.items()
            }
        )
        scanner = build_scanner()
        outbound = Outbound(b"s" * 32, Pseudonymizer(scanner, Keys(b"k" * 32)), clock=self.clock)
        self.dispatcher = Dispatcher(
            self.targets,
            outbound,
            scanner,
            TimeoutSettings(),
            NoOpTracer(),
            clock=self.clock,
            max_answer_bytes=1 << 20,
            attempts=self.attempts,
            wall=lambda: WALL_S,
            draw=random.Random(1),
        )

    def target(self, name: str) -> Target:
        return self.targets[name]

    async def send(
        self,
        *,
        stream: bool = False,
        total_s: float | None = None,
        ttft_s: float | None = None,
        predictions: Mapping[str, Prediction] | None = None,
        allowed: Sequence[str] | None = None,
        **fields: Any,
    ) -> Driven:
        """Send one request, read its answer to the end and let go of it, as the gateway does."""
        began = self.clock()
        deadline = Deadline(
            received_at=began,
            total_at=None if total_s is None else began + total_s,
            first_content_at=None if ttft_s is None else began + ttft_s,
        )
        exchange = self._exchange(deadline, stream, predictions or {}, tuple(allowed or self.scripts), fields)
        driven = Driven(exchange, self.sent, self.sent_at)
        try:
            answer = await self.dispatcher.first_to_commit(exchange, tuple(allowed or self.scripts))
            exchange.commit()
            driven.body = await _whole(answer)
        except TidegateError as exc:
            driven.error = exc
        finally:
            now = self.clock()
            for each in exchange.attempts:
                if each.ended_at is None and each.lease is not None:
                    each.lease.succeeded(now)
        driven.took_s = self.clock() - began
        return driven

    def _exchange(
        self,
        deadline: Deadline,
        stream: bool,
        predictions: Mapping[str, Prediction],
        allowed: tuple[str, ...],
        fields: dict[str, Any],
    ) -> Exchange:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "stream": stream, **fields}
        request = parse_chat(json.dumps(body).encode())
        label = Label(DataClass.PUBLIC)
        size = Size(TokenInterval(5, 5, 5), body_bytes=len(request.raw), parts={"text": 1})
        view = RequestView(request.task, MODEL, stream, request.needs, label, deadline, size, output_cap=16)
        found = {
            target.name: TargetSnapshot(
                target.name,
                target.standing(deadline.received_at).health,
                target.capabilities(MODEL),
                prediction=predictions.get(target.name),
            )
            for target in self.targets
        }
        exchange = Exchange("req-1", None, "/v1/chat/completions", 0.0, WALL_S, INVALID_SPAN, self.clock)
        verdict = verdict_for(POLICY, label, tuple(Eligible(name) for name in allowed))
        exchange.decision = Decided(request, view, POLICY, Snapshot(found, now=deadline.received_at), verdict)
        return exchange


async def _whole(answer: Answer) -> bytes:
    try:
        if isinstance(answer, BufferedAnswer):
            return answer.body
        return b"".join([chunk async for chunk in answer.relay()])
    finally:
        await answer.aclose()

"""Sends a scenario's request through the real pipeline, dispatcher and door, and notes what left."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.trace import INVALID_SPAN, NoOpTracer

from gateway.answer import BufferedAnswer
from gateway.detectors.second_tier import SecondTier
from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.outbound import Outbound
from gateway.egress.pseudonyms import Pseudonymizer
from gateway.exchange import Exchange
from gateway.measure import Measurer
from gateway.pipeline import Pipeline
from gateway.policies.draw import Seeds
from gateway.policies.holder import InForce, PolicyHolder, Version
from gateway.principal import Principal
from gateway.reach_settings import AttemptSettings, TimeoutSettings
from gateway.records.log import RecordLog
from gateway.state.keys import Keys
from gateway.state.label_store import LabelStore
from gateway.state.taint import Taints
from gateway.targets.registry import Targets
from inference_protocol.errors import TidegateError
from inference_protocol.request import GENERATES, Task
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.loader import load_text
from routing_policies.signals.label import Component, DataClass
from routing_policies.signals.scanner import build_scanner
from routing_policies.signals.size import Calibration
from routing_policies.view import Tenant
from tests.gateway.egress.judgement import faults_of, is_tainted
from tests.gateway.egress.scenario_bodies import first_turn, request_of
from tests.gateway.egress.scenarios import (
    SLOWLY_S,
    TARGETS,
    HaikuDetector,
    RecordsThatFail,
    Scenario,
    policy_document,
)
from tests.support.scripted_runtime import state
from tests.support.scripted_transport import Sent, scripted_target

KEYS = Keys(b"k" * 32)
HEDGE_AFTER_S = SLOWLY_S / 20


@dataclass
class House:
    """What is the same for every scenario, so that it is made once."""

    folder: Path
    runner: asyncio.Runner
    measures: Any = field(init=False)
    policies: dict[int, LoadedPolicy] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.measures = (build_scanner(), Calibration.unknown())
        self.records = RecordLog(self.folder / "records", durability="process", max_bytes=1 << 30, files=2)
        self.conversations = 0

    def policy(self, number: int) -> LoadedPolicy:
        if number not in self.policies:
            self.policies[number] = load_text(json.dumps(policy_document(number)), "generated.yaml")
        return self.policies[number]

    def taints(self, scenario: Scenario) -> Taints:
        path = self.folder / "labels.sqlite"
        if scenario.state_store == "gone":
            path = self.folder / "missing.sqlite"
        return Taints(LabelStore(path, wall=lambda: 1e9), KEYS)

    def drive(self, scenario: Scenario) -> list[str]:
        """Send the scenario's request on its way, and return what was wrong with what left."""
        return self.runner.run(self._drive(scenario))

    async def _drive(self, scenario: Scenario) -> list[str]:
        sent: list[Sent] = []
        holder = PolicyHolder(stable(self.policy(scenario.policy)))
        self.conversations += 1
        tenant = Tenant(f"tenant-{self.conversations}")  # so that scenarios share no history
        taints = self.taints(scenario)
        detector = None if scenario.detector == "none" else HaikuDetector(scenario.detector == "fails")
        pipeline = self._pipeline(scenario, holder, taints, sent, detector)
        request = request_of(scenario)
        earlier = Component(DataClass.from_word(scenario.earlier_label)) if is_tainted(scenario) else None
        if earlier is not None:
            await taints.remember(first_turn(scenario), tenant.id, earlier)
        key = Component(None if scenario.key[0] is None else DataClass.from_word(scenario.key[0]), set(scenario.key[1]))
        clock = asyncio.get_running_loop().time
        exchange = Exchange("req-1", None, "/v1/chat/completions", clock(), 1e9, INVALID_SPAN, clock)
        exchange.principal = Principal("p", tenant, key)
        headers = {"x-data-class": scenario.declared} if scenario.declared else {}
        headers |= {"x-data-tags": ",".join(scenario.tags)} if scenario.tags else {}
        headers |= {"x-latency-budget-ms": str(scenario.budget_ms)} if scenario.budget_ms else {}
        if scenario.reload_when == "before":
            reload(holder, self.policy(scenario.next_policy))
        in_force = holder.current
        try:
            await pipeline.decide(exchange, request, headers)
            if scenario.reload_when == "after the decision":
                reload(holder, self.policy(scenario.next_policy))
            answer = await pipeline.answer(exchange)
            exchange.commit()
            if not isinstance(answer, BufferedAnswer):
                async for _ in answer.relay():
                    pass
            await answer.aclose()
        except TidegateError:
            pass
        finally:
            taints.close()
            self.seen.update(seen_in(scenario, exchange, reloaded=holder.current is not in_force))
        document = policy_document(int(in_force.policy.name.removeprefix("policy-")))
        failed = detector is not None and detector.fails and detector.was_asked
        return [fault for each in sent for fault in faults_of(each, scenario, document, failed=failed)]

    def _pipeline(
        self,
        scenario: Scenario,
        holder: PolicyHolder,
        taints: Taints,
        sent: list[Sent],
        detector: HaikuDetector | None,
    ) -> Pipeline:
        def on_sent() -> None:
            if scenario.reload_when == "while it is sent":
                reload(holder, self.policy(scenario.next_policy))

        targets = Targets(
            {
                name: scripted_target(
                    name,
                    scenario.scripts[name],
                    sent,
                    protocol=scenario.protocols[name],
                    health=scenario.health[name],
                    on_sent=on_sent,
                    addresses=scenario.addresses,
                    capabilities={"embeddings": True, "tensors": True},
                    clock=asyncio.get_running_loop().time,
                )
                for name in TARGETS
            }
        )
        scanner, calibration = self.measures
        clock = asyncio.get_running_loop().time
        for name in TARGETS:
            for replica in targets[name].pool:
                replica.state = state(ms_per_token=1.0, window=100_000, tasks=GENERATES | {Task.EMBEDDING, Task.TENSOR})
        tracer = NoOpTracer()
        outbound = Outbound(b"s" * 32, Pseudonymizer(scanner, KEYS), clock=clock)
        dispatcher = Dispatcher(
            targets,
            outbound,
            scanner,
            TimeoutSettings(),
            tracer,
            clock=clock,
            max_answer_bytes=1 << 20,
            attempts=AttemptSettings(hedge_after=HEDGE_AFTER_S if scenario.hedges else "never"),
        )
        records: Any = RecordsThatFail() if scenario.records_fail else self.records
        measurer = Measurer(scanner, taints, calibration, None)
        return Pipeline(
            holder,
            measurer,
            SecondTier([] if detector is None else [detector]),
            taints,
            targets,
            records,
            dispatcher,
            tracer,
            clock=clock,
            seeds=Seeds(KEYS, lambda: 1),
        )


def seen_in(scenario: Scenario, exchange: Exchange, *, reloaded: bool) -> Iterator[str]:
    """What happened on the way of one request, for the account of how much is driven."""
    attempts = exchange.attempts
    yield from {each.cause.value for each in attempts}
    if attempts:
        yield "sent"
        yield scenario.task.value
        if scenario.task is Task.TENSOR and any(message.has_image for message in scenario.messages):
            yield "numbers"
    if attempts and reloaded:
        yield "reload"
    addresses = {(each.target, each.endpoint) for each in attempts}
    if len(addresses) > len({each.target for each in attempts}):
        yield "second address"
    if any(each.error == "answer_withheld" for each in attempts) or exchange.answer_findings:
        yield "finding in an answer"
    if exchange.committed_at is not None:
        yield "answered"


def reload(holder: PolicyHolder, policy: LoadedPolicy) -> None:
    holder.put(stable(policy))


def stable(policy: LoadedPolicy) -> InForce:
    return InForce(Version(1, policy.digest, policy))

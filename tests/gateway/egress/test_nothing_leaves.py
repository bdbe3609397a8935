"""The promise: nothing is sent to a target whose clearance is below the label, whatever happens on the way.

Random policies, labels, detectors, faults, protocols, reloads, retries, hedges and fallbacks go through the real
pipeline, dispatcher and door. What leaves is judged by what is in it and by the policy document alone, not by the code
that decided.
`TIDEGATE_DOOR_EXAMPLES` sets how many requests are driven; the nightly run sets 100,000.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from opentelemetry.trace import INVALID_SPAN, NoOpTracer

from gateway.answer import BufferedAnswer
from gateway.detectors.second_tier import SecondTier
from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.outbound import Outbound
from gateway.egress.door import Door
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
from gateway.state.label_store import LabelStore, make_label_file
from gateway.state.taint import Taints
from gateway.targets.registry import Targets
from inference_protocol.errors import TidegateError
from inference_protocol.openai_chat import parse_chat
from inference_protocol.openai_completion import parse_completion
from inference_protocol.openai_embedding import parse_embedding
from inference_protocol.request import GENERATES, Task
from routing_policies import eligibility, terms
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.loader import load_text
from routing_policies.signals.label import Component, DataClass
from routing_policies.signals.scanner import build_scanner
from routing_policies.signals.size import Calibration
from routing_policies.view import Tenant
from tests.gateway.egress.scenarios import (
    CLASSES,
    POEM,
    SLOWLY_S,
    TAGS,
    TARGETS,
    VALUES,
    HaikuDetector,
    RecordsThatFail,
    Scenario,
    policy_document,
    scenarios,
)
from tests.support.scripted_runtime import MODEL, state
from tests.support.scripted_transport import Sent, scripted_target
from tests.support.virtual_time import VirtualLoop

KEYS = Keys(b"k" * 32)
HEDGE_AFTER_S = SLOWLY_S / 20
# Of 400 requests, with how many at least each of these happens.
LEAST = {
    "sent": 100,
    "answered": 15,
    "reload": 30,
    "completion": 15,
    "embedding": 15,
    "fallback": 10,
    "retry": 10,
    "second address": 10,
    "hedge": 6,
    "hand-over": 1,
    "finding in an answer": 3,
}
PARSERS = {Task.CHAT: parse_chat, Task.COMPLETION: parse_completion, Task.EMBEDDING: parse_embedding}
EXAMPLES = int(os.environ.get("TIDEGATE_DOOR_EXAMPLES", "2000"))


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
        request = PARSERS[scenario.task](json.dumps(body_of(scenario)).encode())
        earlier = Component(DataClass.from_word(scenario.earlier_label)) if is_tainted(scenario) else None
        if earlier is not None:
            first = parse_chat(json.dumps({**body_of(scenario), "messages": [scenario.messages[0].as_json()]}).encode())
            await taints.remember(first, tenant.id, earlier)
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
                    capabilities={"embeddings": True},
                    clock=asyncio.get_running_loop().time,
                )
                for name in TARGETS
            }
        )
        scanner, calibration = self.measures
        clock = asyncio.get_running_loop().time
        for name in TARGETS:
            for replica in targets[name].pool:
                replica.state = state(ms_per_token=1.0, window=100_000, tasks=GENERATES | {Task.EMBEDDING})
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


def body_of(scenario: Scenario) -> dict[str, Any]:
    messages = [message.as_json() for message in scenario.messages]
    if scenario.task is Task.COMPLETION:
        return {"model": MODEL, "prompt": messages[0]["content"], "stream": scenario.stream}
    if scenario.task is Task.EMBEDDING:
        inputs = [message["content"] for message in messages]
        return {"model": MODEL, "input": inputs if len(inputs) > 1 else inputs[0]}
    return {"model": MODEL, "messages": messages, "stream": scenario.stream}


def is_tainted(scenario: Scenario) -> bool:
    conversation = scenario.task is Task.CHAT and len(scenario.messages) > 1
    return scenario.earlier_label is not None and conversation and scenario.state_store == "works"


def found_in(left: str, scenario: Scenario) -> set[str]:
    """The tags of what stands in a body."""
    found = {tag for value, tag in VALUES.items() if tag is not None and json.dumps(value)[1:-1] in left}
    return found | {"pii"} if scenario.detector == "finds" and POEM in left else found


def said_of(scenario: Scenario, document: dict[str, Any], found: set[str], *, failed: bool) -> list[str]:
    """The classes that anybody gives a request in whose body these tags were found."""
    said = [document["findings"][tag] for tag in found]
    said += ["restricted"] if failed else []
    said += [word for word in (scenario.declared, scenario.key[0]) if word is not None]
    if any(message.has_image for message in scenario.messages):
        said.append(document["uninspected"]["image"])
    if is_tainted(scenario) and scenario.earlier_label is not None:
        said.append(scenario.earlier_label)
    earlier_turns = any(message.role == "assistant" for message in scenario.messages)
    if scenario.state_store == "gone" and earlier_turns and len(scenario.messages) > 1:
        said.append("confidential")
    return said or [document["defaults"]["class"]]


def faults_of(sent: Sent, scenario: Scenario, document: dict[str, Any], *, failed: bool) -> Iterator[str]:
    """What the policy document forbids of this, going by what is in it."""
    promise = document["targets"].get(sent.target)
    if promise is None:
        yield f"{sent.target} is none of the policy's targets"
        return
    found = found_in(sent.body.decode(), scenario)
    level = max(map(CLASSES.index, said_of(scenario, document, found, failed=failed)))
    if level > CLASSES.index(promise["clearance"]):
        yield f"{CLASSES[level]} data went to {sent.target}, which is cleared for {promise['clearance']}"
    tags = found | set(scenario.tags) | set(scenario.key[1])
    everything = [*TAGS, "export"]
    allowed = promise.get("tags_allowed", everything if promise["kind"] == "edge" else [])
    if not tags <= set(allowed):
        yield f"data with {sorted(tags - set(allowed))} went to {sent.target}"
    holds = {VALUES[value] for message in scenario.messages for value in message.values}
    for rule in document.get("constraints", ()):
        if "pii" in tags | holds and sent.target in rule["deny"]:
            yield f"{rule['id']} denies {sent.target}"
    if scenario.records_fail and promise["kind"] != "edge":
        yield f"{sent.target} is not this machine, and nothing was written down"
    if sent.headers.get("authorization") != f"Bearer credential-of-{sent.target}":
        yield f"{sent.target} was shown somebody else's credential"
    host = sent.url.split("/")[2]
    if host not in {f"{sent.target}.invalid", f"{sent.target}-2.invalid"}:
        yield f"what was meant for {sent.target} went to {sent.url}"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        make_label_file(Path(folder) / "labels.sqlite")
        yield House(Path(folder), runner)


@pytest.mark.timeout(0 if EXAMPLES > 10_000 else 300)
@hypothesis.settings(max_examples=EXAMPLES)
@given(scenario=scenarios)
def test_nothing_is_sent_to_a_target_whose_clearance_is_below_the_label(house: House, scenario: Scenario) -> None:
    assert house.drive(scenario) == []


def test_what_is_said_to_be_driven_happens(house: House) -> None:
    before = house.seen.copy()

    @hypothesis.settings(max_examples=400, phases=[hypothesis.Phase.generate], derandomize=True, database=None)
    @given(scenario=scenarios)
    def drive(scenario: Scenario) -> None:
        house.drive(scenario)

    drive()
    seen = house.seen - before
    assert {each: seen[each] for each in LEAST if seen[each] < LEAST[each]} == {}, seen


def open_the_door(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Door, "_check", lambda *_: None)


def call_everything_eligible(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(eligibility._Asked, "_by_label", lambda *_: None)
    patch.setattr(eligibility._Asked, "_by_rules", lambda *_: None)
    patch.setattr(terms, "_exposure", lambda *_: 1.0)  # which counts on a clearance that covers the label


def worst(house: House) -> Scenario:
    """A scenario in which something leaves that must not, simplified."""
    quiet = hypothesis.settings(max_examples=2000, phases=[hypothesis.Phase.generate], derandomize=True, database=None)
    return hypothesis.find(scenarios, lambda scenario: bool(house.drive(scenario)), settings=quiet)


def test_without_eligibility_the_door_still_lets_nothing_out_above_a_targets_clearance(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_everything_eligible(monkeypatch)

    def went_too_far(scenario: Scenario) -> bool:
        if scenario.detector != "none":
            return False  # whether detectors are asked is a matter of who is eligible
        return any("which is cleared for" in fault for fault in house.drive(scenario))

    few = hypothesis.settings(max_examples=500, database=None)
    with pytest.raises(hypothesis.errors.NoSuchExample):
        hypothesis.find(scenarios, went_too_far, settings=few)


def test_without_the_door_eligibility_still_keeps_the_promise(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    open_the_door(monkeypatch)
    few = hypothesis.settings(max_examples=500, database=None)
    with pytest.raises(hypothesis.errors.NoSuchExample):
        hypothesis.find(scenarios, lambda scenario: bool(house.drive(scenario)), settings=few)


def test_without_both_the_promise_is_seen_to_be_broken(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    call_everything_eligible(monkeypatch)
    open_the_door(monkeypatch)
    assert house.drive(worst(house)) != []

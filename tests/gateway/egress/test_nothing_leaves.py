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
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import INVALID_SPAN, NoOpTracer

from gateway.answer import BufferedAnswer
from gateway.detectors.detector import DetectorFailed, Place
from gateway.detectors.second_tier import SecondTier
from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.outbound import Outbound
from gateway.egress.door import Door
from gateway.egress.pseudonyms import Pseudonymizer
from gateway.exchange import Exchange
from gateway.identity import Principal
from gateway.measure import Measurer
from gateway.pipeline import Pipeline
from gateway.policies.draw import Seeds
from gateway.policies.holder import InForce, PolicyHolder, Version
from gateway.reach_settings import AttemptSettings, TimeoutSettings
from gateway.records.log import RecordLog
from gateway.settings import TargetProtocol
from gateway.state.keys import Keys
from gateway.state.label_store import LabelStore, make_label_file
from gateway.state.taint import Taints
from gateway.targets.registry import Targets
from inference_protocol.errors import RecordFailed, TidegateError
from inference_protocol.openai_chat import parse_chat
from routing_policies import eligibility, terms
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.loader import load_text
from routing_policies.signals.label import Component, DataClass
from routing_policies.signals.scanner import build_scanner
from routing_policies.signals.size import Calibration
from routing_policies.snapshot import Health
from routing_policies.view import Tenant
from tests.support.scripted_runtime import MODEL
from tests.support.scripted_transport import (
    FAULTS,
    Act,
    Sent,
    after,
    answers,
    says_busy,
    says_too_long,
    scripted_target,
)

KEYS = Keys(b"k" * 32)
EXAMPLES = int(os.environ.get("TIDEGATE_DOOR_EXAMPLES", "2000"))
CLASSES = [level.word for level in DataClass]
TAGS = ["pii", "pci", "phi", "secret"]
TARGETS = ("edge", "cloud", "dc", "hop")
KINDS = {"edge": "edge", "cloud": "cloud", "dc": "onprem", "hop": "tidegate"}
# What a request may hold, by the tag of what is to be found in it; `None` is clean.
VALUES = {
    "jane.doe@corp.com": "pii",
    "+49 30 1234 5678": "pii",
    "4111 1111 1111 1111": "pci",
    "AKIAIOSFODNN7EXAMPLE": "secret",
    "MRN: 00123456": "phi",
    "what is DNS?": None,
    "Write a haiku about the sea.": None,
}
POEM = "Write a haiku about the sea."
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def policy_document(number: int) -> dict[str, Any]:
    """The policy of this number: always the same one."""
    draw = random.Random(number)
    targets = {}
    for name in draw.sample(TARGETS, draw.randint(1, 4)):
        clearance = draw.choices(CLASSES, [1, 2, 3, 2])[0]
        targets[name] = {"kind": KINDS[name], "clearance": clearance, "quality": draw.random()}
        if draw.random() < 0.4:
            targets[name]["pseudonymize"] = draw.sample(TAGS, draw.randint(1, 4))
        if draw.random() < 0.7:
            targets[name]["tags_allowed"] = draw.sample([*TAGS, "export"], draw.randint(2, 5))
    document: dict[str, Any] = {
        "apiVersion": "tidegate/v1",
        "name": f"policy-{number}",
        "defaults": {"class": draw.choices(CLASSES, [4, 2, 1, 1])[0], "late": draw.choice(["finish", "refuse"])},
        "findings": {tag: draw.choice(CLASSES) for tag in TAGS},
        "uninspected": {"image": draw.choice(CLASSES)},
        "targets": targets,
        "weights": {"quality": 1.0},
    }
    if draw.random() < 0.3:
        denied = draw.sample(list(targets), 1)
        document["constraints"] = [{"id": "some", "when": '"pii" in label.tags', "deny": denied}]
    return document


@dataclass
class Message:
    role: str
    values: list[str]
    has_image: bool = False

    def as_json(self) -> dict[str, Any]:
        text = " and ".join(self.values)
        content: Any = [{"type": "text", "text": text}, IMAGE] if self.has_image else text
        return {"role": self.role, "content": content}


@dataclass
class Scenario:
    """One request, and everything that happens while it is on its way."""

    policy: int
    messages: list[Message]
    declared: str | None
    tags: list[str]
    key: tuple[str | None, list[str]]
    earlier_label: str | None
    stream: bool
    scripts: dict[str, list[Act]]
    protocols: dict[str, TargetProtocol]
    health: dict[str, Health]
    next_policy: int
    reload_when: str
    records_fail: bool
    state_store: str = "works"
    addresses: int = 1
    hedges: bool = False
    detector: str = "none"


def one_for_each(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(dict.fromkeys(TARGETS, values))


# Most requests shall get through, for those that leave are the ones that tell something.
CLEAN = [value for value, tag in VALUES.items() if tag is None]
messages = st.builds(
    Message,
    st.sampled_from(["user", "user", "assistant", "system", "tool"]),
    st.lists(st.sampled_from([*CLEAN * 4, *VALUES]), min_size=1, max_size=2),
    st.sampled_from([False] * 7 + [True]),
)
classes = st.sampled_from([None, None, None, *CLASSES])
some_tags = st.sampled_from([[], [], [], ["pii"], ["phi"], ["export"], ["pci", "secret"]])
# Some take a moment, so that another attempt may begin beside them; a refusal to be asked now is tried again.
ACTS = [answers, *FAULTS, says_busy(503, retry_after_ms="0"), says_too_long(10)]
acts = st.sampled_from([*ACTS, *(after(0.002, act) for act in ACTS)])
scenarios = st.builds(
    Scenario,
    policy=st.integers(0, 199),
    messages=st.lists(messages, min_size=1, max_size=4),
    declared=classes,
    tags=some_tags,
    key=st.tuples(classes, some_tags),
    earlier_label=classes,
    stream=st.booleans(),
    scripts=one_for_each(st.lists(acts, min_size=1, max_size=3)),
    protocols=one_for_each(st.sampled_from(TargetProtocol)),
    health=one_for_each(st.sampled_from([Health.UP] * 6 + [Health.UNKNOWN, Health.DOWN])),
    next_policy=st.integers(0, 199),
    reload_when=st.sampled_from(["never", "before", "while it is sent", "after the decision"]),
    records_fail=st.sampled_from([False] * 7 + [True]),
    state_store=st.sampled_from(["works"] * 7 + ["gone"]),
    addresses=st.integers(1, 2),
    hedges=st.booleans(),
    detector=st.sampled_from(["none", "none", "finds", "finds", "fails"]),
)


@dataclass
class HaikuDetector:
    """A second tier that takes poems for personal data, or gives out."""

    fails: bool
    name = "haiku"
    tags = frozenset({"pii"})
    was_asked = False

    async def find(self, texts: Sequence[str]) -> list[list[Place]]:
        self.was_asked = True
        await asyncio.sleep(0)
        if self.fails:
            raise DetectorFailed("no answer")
        return [
            [Place("poem", "pii", text.index(POEM), text.index(POEM) + len(POEM))] if POEM in text else []
            for text in texts
        ]

    async def run(self) -> None:
        """Run nothing."""

    async def aclose(self) -> None:
        """Hold nothing."""


class RecordsThatFail:
    async def write_before_egress(self, _record: object) -> None:
        raise RecordFailed("disk full")


@dataclass
class House:
    """What is the same for every scenario, so that it is made once."""

    folder: Path
    runner: asyncio.Runner
    measures: Any = field(init=False)
    policies: dict[int, LoadedPolicy] = field(default_factory=dict)

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
        request = parse_chat(json.dumps(body_of(scenario)).encode())
        earlier = Component(DataClass.from_word(scenario.earlier_label)) if is_tainted(scenario) else None
        if earlier is not None:
            first = parse_chat(json.dumps({**body_of(scenario), "messages": [scenario.messages[0].as_json()]}).encode())
            await taints.remember(first, tenant.id, earlier)
        key = Component(None if scenario.key[0] is None else DataClass.from_word(scenario.key[0]), set(scenario.key[1]))
        exchange = Exchange("req-1", None, "/v1/chat/completions", 1000.0, 1e9, INVALID_SPAN, lambda: 1000.0)
        exchange.principal = Principal("p", tenant, key)
        headers = {"x-data-class": scenario.declared} if scenario.declared else {}
        headers |= {"x-data-tags": ",".join(scenario.tags)} if scenario.tags else {}
        if scenario.reload_when == "before":
            reload(holder, self.policy(scenario.next_policy))
        in_force = holder.current
        try:
            await pipeline.decide(exchange, request, headers)
            if scenario.reload_when == "after the decision":
                reload(holder, self.policy(scenario.next_policy))
            answer = await pipeline.answer(exchange)
            if not isinstance(answer, BufferedAnswer):
                async for _ in answer.relay():
                    pass
            await answer.aclose()
        except TidegateError:
            pass
        finally:
            taints.close()
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
                )
                for name in TARGETS
            }
        )
        scanner, calibration = self.measures
        clock = lambda: 1000.0  # noqa: E731  # reads best here
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
            attempts=AttemptSettings(hedge_after=1e-6 if scenario.hedges else "never"),
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


def reload(holder: PolicyHolder, policy: LoadedPolicy) -> None:
    holder.put(stable(policy))


def stable(policy: LoadedPolicy) -> InForce:
    return InForce(Version(1, policy.digest, policy))


def body_of(scenario: Scenario) -> dict[str, Any]:
    messages = [message.as_json() for message in scenario.messages]
    return {"model": MODEL, "messages": messages, "stream": scenario.stream}


def is_tainted(scenario: Scenario) -> bool:
    return scenario.earlier_label is not None and len(scenario.messages) > 1 and scenario.state_store == "works"


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
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        make_label_file(Path(folder) / "labels.sqlite")
        yield House(Path(folder), runner)


@pytest.mark.timeout(0 if EXAMPLES > 10_000 else 300)
@hypothesis.settings(max_examples=EXAMPLES)
@given(scenario=scenarios)
def test_nothing_is_sent_to_a_target_whose_clearance_is_below_the_label(house: House, scenario: Scenario) -> None:
    assert house.drive(scenario) == []


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

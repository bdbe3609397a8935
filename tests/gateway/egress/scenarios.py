"""Random requests, policies and mishaps: what may happen to one request on its way through the gateway."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from gateway.detectors.detector import DetectorFailed, Place
from gateway.target_settings import TargetProtocol
from inference_protocol.errors import RecordFailed
from inference_protocol.request import Task
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Health
from tests.support.scripted_transport import FAULTS, Act, after, answers, saying, says_busy, says_too_long

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
SLOWLY_S = 10.0
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def policy_document(number: int) -> dict[str, Any]:
    """The policy of this number: always the same one."""
    draw = random.Random(number)
    targets = {}
    for name in draw.sample(TARGETS, draw.randint(2, 4)):
        # This machine is mostly cleared for all, as it is outside of tests: there is somebody to hand over to.
        clearance = draw.choices(CLASSES, [1, 1, 1, 6] if name == "edge" else [1, 2, 3, 2])[0]
        quality = draw.random() * (0.3 if name == "edge" else 1.0)  # what leaves is what tells something
        targets[name] = {"kind": KINDS[name], "clearance": clearance, "quality": quality}
        if draw.random() < 0.4:
            targets[name]["pseudonymize"] = draw.sample(TAGS, draw.randint(1, 4))
        if draw.random() < 0.7:
            targets[name]["tags_allowed"] = draw.sample([*TAGS, "export"], draw.randint(2, 5))
    document: dict[str, Any] = {
        "apiVersion": "tidegate/v1",
        "name": f"policy-{number}",
        "defaults": {"class": draw.choices(CLASSES, [4, 2, 1, 1])[0], "late": draw.choice(["finish", "refuse"])},
        "findings": {tag: draw.choice(CLASSES) for tag in TAGS},
        "uninspected": {"image": draw.choice(CLASSES), "blob": draw.choice(CLASSES)},
        "targets": targets,
        "weights": {"quality": 1.0},
    }
    if draw.random() < 0.3:
        denied = draw.sample(list(targets), 1)
        document["constraints"] = [{"id": "some", "when": '"pii" in label.tags', "deny": denied}]
    document["answers"] = {"scan": draw.choice(["off", "label", "mask", "stop"]), "tags": draw.sample(TAGS, 2)}
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
    task: Task = Task.CHAT
    budget_ms: int | None = None

    def __post_init__(self) -> None:
        if self.task is Task.TENSOR:  # of text, and of numbers where a message has a picture; nobody's turns
            self.messages = [Message("user", message.values, message.has_image) for message in self.messages]
        if self.task in (Task.COMPLETION, Task.EMBEDDING):  # they hold texts, and know neither turns nor images
            held = [message.values for message in self.messages]
            held = held if self.task is Task.EMBEDDING else [[value for values in held for value in values]]
            self.messages = [Message("user", values) for values in held]


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
classes = st.sampled_from([*[None] * 12, *CLASSES])
some_tags = st.sampled_from([*[[]] * 12, ["pii"], ["phi"], ["export"], ["pci", "secret"]])
# Some take long, so that another attempt begins beside them; a refusal to be asked now is tried again.
ANSWERS = [answers, saying(" and ".join(VALUES))]
ACTS = [*ANSWERS * 3, *FAULTS, says_busy(503, retry_after_ms="0"), says_too_long(10)]
acts = st.sampled_from([*ACTS, *(after(SLOWLY_S, act) for act in ACTS * 2)])
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
    health=one_for_each(st.sampled_from([Health.UP] * 10 + [Health.UNKNOWN, Health.DOWN])),
    next_policy=st.integers(0, 199),
    reload_when=st.sampled_from(["never", "before", "while it is sent", "after the decision"]),
    records_fail=st.sampled_from([False] * 7 + [True]),
    state_store=st.sampled_from(["works"] * 7 + ["gone"]),
    addresses=st.integers(1, 2),
    hedges=st.sampled_from([False, False, True]),
    detector=st.sampled_from(["none", "none", "none", "finds", "finds", "fails"]),
    task=st.sampled_from([*[Task.CHAT] * 4, *[Task.COMPLETION, Task.EMBEDDING, Task.TENSOR] * 2]),
    budget_ms=st.sampled_from([None, 2000, 4000, 6000, 8000]),
)

"""What was wrong with what left: judged by what is in it and by the policy document, not by the code that decided."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from inference_protocol.request import Task
from tests.gateway.egress.scenarios import CLASSES, POEM, TAGS, VALUES, Scenario
from tests.support.scripted_transport import Sent


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
        said.append(document["uninspected"]["blob" if scenario.task is Task.TENSOR else "image"])
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
    found = found_in(sent.body.decode("utf-8", "replace"), scenario)
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

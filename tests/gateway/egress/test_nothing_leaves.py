"""The promise: nothing is sent to a target whose clearance is below the label, whatever happens on the way.

Random policies, labels, detectors, faults, protocols, reloads, retries, hedges and fallbacks go through the real
pipeline, dispatcher and door. What leaves is judged by what is in it and by the policy document alone, not by the code
that decided.
`TIDEGATE_DOOR_EXAMPLES` sets how many requests are driven; the nightly run sets 100,000.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given

from gateway.egress.door import Door
from gateway.state.label_store import make_label_file
from routing_policies import eligibility, terms
from tests.gateway.egress.driving import House
from tests.gateway.egress.scenarios import Scenario, scenarios
from tests.support.virtual_time import VirtualLoop

EXAMPLES = int(os.environ.get("TIDEGATE_DOOR_EXAMPLES", "2000"))
# Of 800 requests, with how many at least each of these happens.
LEAST = {
    "sent": 300,
    "answered": 100,
    "reload": 100,
    "completion": 60,
    "embedding": 30,
    "tensor": 30,
    "numbers": 3,
    "fallback": 25,
    "retry": 20,
    "second address": 40,
    "hedge": 40,
    "hand-over": 15,
    "finding in an answer": 6,
}


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

    @hypothesis.settings(max_examples=800, phases=[hypothesis.Phase.generate], derandomize=True, database=None)
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

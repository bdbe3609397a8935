"""Comparing policies, replaying recorded traffic, and the matrix, each held to what is really decided."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from types import SimpleNamespace

import orjson
import pytest

from routing_policies.decide import decide
from routing_policies.lab.bootstrap import estimate
from routing_policies.lab.diff import Direction, compare, weigh
from routing_policies.lab.matrix import Answer, matrix_of
from routing_policies.lab.recorded import VERSION
from routing_policies.lab.replay import Replayer, UnreadableRecord
from routing_policies.lab.simulate import NOBODY, Decider, simulate
from routing_policies.policy.loader import builtin_names, load_policy, read_text
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Health
from tests.support.recorded_traffic import recorded_lines, recorded_traffic

REGIONAL = """\
apiVersion: tidegate/v1
name: regional
defaults: {class: public}
targets:
  edge:  {kind: edge, clearance: restricted, quality: 0.6, price: {input: 0, output: 0}}
  cloud: {kind: cloud, clearance: confidential, tags_allowed: [pii], quality: 1.0, price: {input: 0.1, output: 0.4}}
constraints:
  - {id: eu-stays, when: 'tenant.residency == "eu"', deny: [cloud]}
  - {id: long-stays, when: 'size.tokens > 900', deny: [cloud]}
"""


@pytest.mark.parametrize("name", builtin_names())
def test_recorded_traffic_replays_to_the_same_decision(name: str) -> None:
    policy = load_policy(name)
    decider, replayer = Decider(policy), Replayer(policy)
    for record in recorded_traffic(policy, 300):
        replayed = replayer.replay(orjson.dumps(record))
        assert replayed is not None
        verdict = decide(policy, replayed.view, replayed.snapshot)
        assert verdict.digest == record["digest"]
        assert decider.decide(replayed).order == tuple(each.target for each in verdict.eligible)


def test_how_a_target_stood_is_replayed_to_the_last_detail() -> None:
    policy = load_policy("balanced")
    record = next(recorded_traffic(policy, 1))
    record["targets"]["cloud"] |= {"health": "resting", "back_in_s": 1.5, "waiting": 7}
    replayed = Replayer(policy).replay(orjson.dumps(record))
    assert replayed is not None
    cloud = replayed.snapshot.targets["cloud"]
    assert (cloud.health, cloud.back_in_s, cloud.waiting) == (Health.RESTING, 1.5, 7)
    assert "cloud" not in Decider(policy).decide(replayed).order


def test_looking_at_rules_once_for_alike_requests_changes_no_decision() -> None:
    """The cells that a replay tells apart are as fine as the rules: held to `decide` on a policy with many literals."""
    policy = read_text(
        REGIONAL
        + """\
  - {id: slow, when: 'deadline.total_ms <= 2000 && deadline.total_ms < 9000', deny: [edge]}
  - {id: cap, when: 'request.output_cap == 256 && request.tools', deny: [cloud]}
  - {id: bytes, when: 'size.body_bytes > request.output_cap', require: 'target.clearance >= label.level'}
prefer:
  - {id: soft, when: 'size.tokens >= 300', target: cloud, weight: 0.3}
  - {id: link, when: 'client.metered && client.battery_percent > 10', target: edge, weight: 0.4}
  - {id: memory, when: 'device.free_memory_mb < 1000 || device.connectivity == "offline"', target: edge, weight: -0.4}
  - {id: line, when: 'target.waiting > 4', target: edge, weight: -0.5}
""",
        "site.yaml",
    )
    decider, replayer = Decider(policy), Replayer(policy)
    for line in recorded_lines(load_policy("balanced"), 500, seed=3):
        replayed = replayer.replay(line)
        assert replayed is not None
        verdict = decide(policy, replayed.view, replayed.snapshot)
        assert decider.decide(replayed).order == tuple(each.target for each in verdict.eligible)


def test_a_simulation_of_the_policy_in_force_shows_what_was_recorded() -> None:
    policy = load_policy("balanced")
    found = simulate(
        policy, [*recorded_lines(policy, 400), b'{"kind": "outcome", "outcome": "ok"}\n', b'{"kind": "deci']
    )
    assert found.replayed == 400
    assert found.shares == found.before
    assert (found.looser, found.stricter, found.moved) == (0, 0, 0)
    assert found.cost is not None
    assert found.in_budget is not None
    assert found.in_budget.low <= found.in_budget.mean <= found.in_budget.high
    assert found.not_identifiable == {}
    assert found.unreadable == 0


def test_a_stricter_candidate_moves_traffic_and_says_so() -> None:
    found = simulate(load_policy("private-first"), recorded_lines(load_policy("balanced"), 400))
    assert found.stricter > 0
    assert found.looser == 0
    assert found.shares["cloud"].mean < found.before["cloud"].mean
    assert sum(share.mean for share in found.shares.values()) == pytest.approx(1.0)
    assert set(found.shares) <= {"edge", "cloud", NOBODY}


def test_what_records_know_nothing_of_is_not_identifiable() -> None:
    text = REGIONAL + "  - {id: big-stays, when: 'size.tokens > 100', deny: [other]}\n"
    text = text.replace("constraints:", "  other: {kind: cloud, clearance: internal}\nconstraints:")
    found = simulate(read_text(text, "site.yaml"), recorded_lines(load_policy("balanced"), 300))
    assert found.not_identifiable["other"] > 0
    assert found.replayed + found.not_identifiable["other"] == 300
    no_price = read_text(
        REGIONAL.replace(", price: {input: 0.1, output: 0.4}", "").replace(", price: {input: 0, output: 0}", ""), "x"
    )
    nothing = simulate(no_price, recorded_lines(load_policy("balanced"), 20))
    assert nothing.cost is None


def test_older_records_are_replayed_with_what_they_lack_named() -> None:
    records = list(recorded_traffic(load_policy("balanced"), 50))
    for record in records:
        for later in ("needs", "roles", "residency", "targets", "client", "device", "decided_after_ms", "seed"):
            del record[later]
        del record["size"]["cap_is_own"], record["label"]["fixed"]
    found = simulate(load_policy("balanced"), map(orjson.dumps, records))
    assert found.replayed == 50
    assert found.assumed == dict.fromkeys(("client", "device", "needs", "residency", "targets"), 50)


def test_damaged_records_are_counted_and_left_out() -> None:
    records = list(recorded_traffic(load_policy("balanced"), 3))
    records[0]["label"]["class"] = None
    del records[0]["label"]["components"]
    records[1]["size"]["tokens"] = [1]
    found = simulate(load_policy("balanced"), map(orjson.dumps, records))
    assert (found.replayed, found.unreadable) == (1, 2)
    with pytest.raises(UnreadableRecord, match="missing required field `task`"):
        Replayer(load_policy("balanced")).replay(b'{"kind": "decision", "version": 1}')


def test_records_of_a_newer_version_are_not_guessed_at() -> None:
    records = list(recorded_traffic(load_policy("balanced"), 5))
    assert {record["version"] for record in records} == {VERSION}
    records[0]["version"] = records[1]["version"] = VERSION + 1
    lines = list(map(orjson.dumps, records))
    found = simulate(load_policy("balanced"), lines)
    assert (found.replayed, found.unreadable) == (3, 2)
    weighed = weigh(load_policy("balanced"), load_policy("private-first"), lines)
    assert (weighed.requests, weighed.unreadable) == (3, 2)
    with pytest.raises(UnreadableRecord, match="version 2, and this Tidegate reads up to 1"):
        Replayer(load_policy("balanced")).replay(lines[0])


def test_an_interval_holds_the_mean_that_traffic_really_has() -> None:
    chance = random.Random(5)
    inside = 0
    for _ in range(100):
        found = estimate([float(chance.random() < 0.3) for _ in range(400)])
        assert found is not None
        inside += found.low <= 0.3 <= found.high
    assert inside >= 88
    assert estimate([math.nan]) is None
    one = estimate([math.nan, 2.0])
    assert one is not None
    assert (one.mean, one.count) == (2.0, 1)


def test_no_policy_differs_from_itself(make: SimpleNamespace) -> None:
    for name in builtin_names():
        assert compare(load_policy(name), load_policy(name)) == []


def test_looser_and_stricter_are_told_apart_each_with_a_request_that_shows_it(make: SimpleNamespace) -> None:
    before = read_text(REGIONAL, "before")
    after = read_text(
        REGIONAL.replace("size.tokens > 900", "size.tokens > 500").replace(
            ", deny: [cloud]}\n  - {id: long", ", deny: [edge]}\n  - {id: long"
        ),
        "after",
    )
    changes = compare(before, after)
    assert {(c.direction, c.target) for c in changes} == {
        (Direction.LOOSER, "cloud"),
        (Direction.STRICTER, "cloud"),
        (Direction.STRICTER, "edge"),
    }
    snapshot = replace(make.snapshot(make.target("edge"), make.target("cloud")), now=0.0)
    for change in changes:
        old, new = (
            {e.target for e in decide(policy, change.example.view(policy.policy), snapshot).eligible}
            for policy in (before, after)
        )
        assert (change.target in new, change.target in old) == (
            change.direction is Direction.LOOSER,
            change.direction is Direction.STRICTER,
        )
        assert change.example.level is change.level


def test_a_change_is_weighed_by_recorded_traffic() -> None:
    before = read_text(REGIONAL, "before")
    after = read_text(REGIONAL.replace("size.tokens > 900", "size.tokens > 300"), "after")
    traffic = weigh(before, after, recorded_lines(load_policy("balanced"), 300))
    assert traffic.requests == 300
    assert {key[:2] for key in traffic.concerned} == {(Direction.STRICTER, "cloud")}
    assert traffic.concerned[Direction.STRICTER, "cloud", DataClass.PUBLIC] > 0
    assert traffic.unknown == 0


def test_every_cell_of_the_matrix_is_what_is_decided(make: SimpleNamespace) -> None:
    policy = read_text(REGIONAL, "site.yaml")
    snapshot = make.snapshot(make.target("edge"), make.target("cloud"))
    for row in matrix_of(policy):
        tags = set() if row.tag is None else {row.tag}
        plain = decide(policy, make.view(row.level, tags), snapshot)
        for target, cell in row.cells.items():
            eligible = target in plain.terms
            assert (cell.answer is Answer.NO) <= (not eligible)
            assert (cell.answer is Answer.YES) <= eligible
    cells = {(row.level, row.tag): row.cells["cloud"] for row in matrix_of(policy)}
    assert cells[DataClass.PUBLIC, None].in_brief() == "depends: eu-stays, long-stays"
    assert cells[DataClass.PUBLIC, "phi"].in_brief() == "no: tag"
    assert cells[DataClass.RESTRICTED, None].reason == "is cleared for confidential data at most"


def test_the_matrix_names_the_rule_that_always_excludes() -> None:
    text = REGIONAL + "  - {id: secret-stays, when: label.level >= CONFIDENTIAL, deny: [cloud]}\n"
    cells = {(row.level, row.tag): row.cells["cloud"] for row in matrix_of(read_text(text, "a"))}
    assert cells[DataClass.CONFIDENTIAL, "pii"].in_brief() == "no: secret-stays"

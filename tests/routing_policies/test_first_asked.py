"""Who is asked first by one policy and not by another, held to what is really decided."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from routing_policies.decide import decide
from routing_policies.lab.abstract_request import AbstractRequest
from routing_policies.lab.diff import Direction, weigh
from routing_policies.lab.domain import TooManyCells, domain_of
from routing_policies.lab.first_asked import Move, compare_first
from routing_policies.lab.rulebook import conditions_of, rulebook_of
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loader import LoadedPolicy, builtin_names, load_policy, read_text
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Capabilities, Health, Snapshot, TargetSnapshot
from tests.support.random_conditions import request_conditions
from tests.support.recorded_traffic import recorded_lines

TARGETS = """\
apiVersion: tidegate/v1
name: random
defaults: {class: public, total_ms: null, ttft_ms: null, max_tokens: 512, late: finish}
targets:
  edge: {kind: edge, clearance: restricted, quality: 0.5}
  site: {kind: onprem, clearance: confidential, quality: 0.7, price: {input: 0.2, output: 0.1}}
  cloud: {kind: cloud, clearance: internal, quality: 1.0, price: {input: 0.1, output: 0.4}}
"""
WEIGHTS = "weights: {{quality: {}, exposure: {}, cost: {}}}\n"
preference = st.tuples(
    request_conditions, st.sampled_from(["edge", "site", "cloud"]), st.sampled_from([0.1, 0.5, -0.3])
)
denial = st.tuples(request_conditions, st.sampled_from(["site", "cloud"]))
halves = st.integers(0, 2)
parts = st.tuples(
    st.lists(preference, max_size=2), st.lists(denial, max_size=1), st.tuples(st.integers(1, 2), halves, halves)
)


def quoted(condition: str) -> str:
    return "'" + condition.replace("'", "''") + "'"


def written(preferences: list[tuple[str, str, float]], denials: list[tuple[str, str]], weights: object) -> LoadedPolicy:
    assert isinstance(weights, tuple)
    lines = [TARGETS + WEIGHTS.format(*weights).rstrip()]
    if denials:
        lines.append("constraints:")
        lines += [f"  - {{id: d{i}, when: {quoted(w)}, deny: [{t}]}}" for i, (w, t) in enumerate(denials)]
    if preferences:
        lines.append("prefer:")
        lines += [
            f"  - {{id: p{i}, when: {quoted(w)}, target: {t}, weight: {x}}}" for i, (w, t, x) in enumerate(preferences)
        ]
    return read_text("\n".join(lines) + "\n", "random.yaml")


def neutral(policy: LoadedPolicy) -> Snapshot:
    able = Capabilities(served_model="m", tools=True, json_schema=True, images=True, audio=True)
    return Snapshot({name: TargetSnapshot(name, Health.UP, able) for name in policy.policy.targets}, now=0.0)


def first(policy: LoadedPolicy, request: AbstractRequest) -> str | None:
    verdict = decide(policy, request.view(policy.policy), neutral(policy))
    return next((each.target for each in verdict.eligible), None)


def compared(before: LoadedPolicy, after: LoadedPolicy) -> list[Move]:
    try:
        return compare_first(before, after, 20_000)
    except TooManyCells:
        assume(False)
        raise


@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(old=parts, new=parts, data=st.data())
def test_every_move_is_what_is_decided_and_no_request_moves_that_is_not_told(
    old: tuple[list[tuple[str, str, float]], list[tuple[str, str]], object],
    new: tuple[list[tuple[str, str, float]], list[tuple[str, str]], object],
    data: st.DataObject,
) -> None:
    try:
        before, after = written(*old), written(*new)
        domain = domain_of([before.policy, after.policy], [*conditions_of(before), *conditions_of(after)])
    except (PolicyError, TooManyCells):
        assume(False)
        raise
    moves = compared(before, after)
    for move in moves:
        assert (first(before, move.example), first(after, move.example)) == (move.before, move.after)
        assert move.example.level is move.level
    told = {(move.before, move.after, move.level) for move in moves}
    possible = [*rulebook_of(before, domain).possible, *rulebook_of(after, domain).possible]
    for _ in range(5):
        chosen = [data.draw(st.sampled_from(variable.values)) for variable in domain.variables]
        if not all(formula.of(chosen) for formula in possible):
            continue
        request = AbstractRequest.of(domain, chosen)
        was, now = first(before, request), first(after, request)
        assert was == now or (was, now, request.level) in told


def test_other_weights_alone_move_requests_and_leaving_the_device_is_looser() -> None:
    near = read_text(TARGETS + WEIGHTS.format(1, 8, 8), "near.yaml")
    far = read_text(TARGETS + WEIGHTS.format(8, 1, 0), "far.yaml")
    there = [(m.direction, m.before, m.after, m.level) for m in compare_first(near, far)]
    back = [(m.direction, m.before, m.after) for m in compare_first(far, near)]
    assert (Direction.LOOSER, "edge", "cloud", DataClass.INTERNAL) in there
    assert (Direction.STRICTER, "cloud", "edge") in back
    assert all((direction is Direction.LOOSER) == (was == "edge") for direction, was, *_ in there)


def test_a_move_between_two_targets_off_the_device_is_neither() -> None:
    prefers = "prefer:\n  - {{id: p, when: 'true', target: {}, weight: 1}}\n"
    before, after = (
        read_text(TARGETS + WEIGHTS.format(1, 0, 0) + prefers.format(name), name) for name in ("site", "cloud")
    )
    moves = compare_first(before, after)
    assert {(m.direction, m.before, m.after) for m in moves} == {(None, "site", "cloud")}
    assert [m.level for m in moves] == [DataClass.PUBLIC, DataClass.INTERNAL]


def test_whom_nobody_may_answer_any_more_is_a_move_too() -> None:
    before = read_text(TARGETS + WEIGHTS.format(1, 0, 0), "a")
    refusing = "constraints:\n  - {id: none, when: 'label.level >= RESTRICTED', deny: [edge]}\n"
    after = read_text(TARGETS + WEIGHTS.format(1, 0, 0) + refusing, "b")
    assert [(m.direction, m.before, m.after, m.level) for m in compare_first(before, after)] == [
        (None, "edge", None, DataClass.RESTRICTED)
    ]


def test_what_is_found_and_replaced_is_sent_as_its_own_class_and_ranked_so() -> None:
    text = TARGETS.replace("clearance: internal", "clearance: internal, pseudonymize: [pii]")
    near, far = (read_text(text + WEIGHTS.format(*weights), "x") for weights in ((1, 9, 0), (9, 1, 0)))
    moves = {(m.before, m.after, m.level): m.example for m in compare_first(near, far)}
    example = moves["edge", "cloud", DataClass.INTERNAL]
    assert far.policy.targets["cloud"].pseudonymize
    assert example.level is DataClass.INTERNAL


@pytest.mark.parametrize(("before", "after"), tuple(itertools.combinations(builtin_names(), 2)))
def test_the_policies_that_come_with_it_can_be_compared(before: str, after: str) -> None:
    compare_first(load_policy(before), load_policy(after))


def test_recorded_traffic_tells_whom_each_request_moved_to() -> None:
    before, after = load_policy("balanced"), load_policy("private-first")
    traffic = weigh(before, after, recorded_lines(before, 300))
    assert traffic.moved == sum(traffic.first.values()) > 0
    assert all(was != now for was, now, _ in traffic.first)
    assert ("cloud", "edge") in {key[:2] for key in traffic.first}

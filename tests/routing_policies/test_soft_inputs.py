"""Hints, the state of this device and queues: they move who is asked first, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing_policies.decide import decide
from routing_policies.lab.lints import lint
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loader import builtin_names, load_policy
from routing_policies.policy.names import REQUEST_NAMES, SOFT
from routing_policies.policy.self_test import run_tests
from routing_policies.signals.hints import EffectiveType, Hints, Network
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Connectivity, Device

SHIPPED = {name: load_policy(name) for name in builtin_names()}
hints = st.builds(
    Hints,
    save_data=st.booleans(),
    network=st.sampled_from(Network),
    metered=st.booleans(),
    effective_type=st.sampled_from(EffectiveType),
    battery_percent=st.none() | st.floats(0, 100),
    charging=st.booleans(),
)
devices = st.builds(Device, st.sampled_from(Connectivity), st.none() | st.floats(0, 64_000))
waiting = st.none() | st.integers(0, 1000)


@given(
    name=st.sampled_from(sorted(SHIPPED)),
    hints=hints,
    device=devices,
    waiting=waiting,
    level=st.sampled_from(DataClass),
    tags=st.sets(st.sampled_from(["pii", "phi", "secret"])),
    total_ms=st.none() | st.floats(1, 5000),
)
def test_no_hint_and_no_state_changes_who_may_answer_or_what_the_label_is(
    *,
    name: str,
    hints: Hints,
    device: Device,
    waiting: int | None,
    level: DataClass,
    tags: set[str],
    total_ms: float | None,
    make: SimpleNamespace,
) -> None:
    policy = SHIPPED[name]
    view = make.view(level, tags, total_ms=total_ms)
    targets = [make.target(target, prediction=make.prediction(400)) for target in policy.policy.targets]
    plain = decide(policy, view, make.snapshot(*targets))
    state = replace(make.snapshot(*[replace(target, waiting=waiting) for target in targets]), device=device)
    hinted = decide(policy, replace(view, hints=hints), state)
    assert set(hinted.terms) == set(plain.terms)
    assert (hinted.excluded, hinted.label, hinted.scores) == (plain.excluded, plain.label, plain.scores)


@pytest.mark.parametrize("name", sorted(SOFT))
@pytest.mark.parametrize(
    ("section", "rule"),
    [
        ("constraints", "{{id: a, when: '{when}', deny: [cloud]}}"),
        ("constraints", "{{id: a, require: '{when}'}}"),
        ("invariants", "{{id: a, when: '{when}', require: 'true'}}"),
        ("invariants", "{{id: a, require: '{when}'}}"),
    ],
)
def test_a_hard_rule_that_reads_what_changes_by_itself_is_refused_with_where_it_may_stand(
    name: str, section: str, rule: str, make: SimpleNamespace
) -> None:
    with pytest.raises(PolicyError, match=rf"`{name}` may stand in `prefer` only"):
        make.policy(f"{section}:\n  - {rule.format(when=f'{name} == {name}')}\n")


def test_a_preference_sees_the_target_that_it_is_about(make: SimpleNamespace) -> None:
    policy = make.policy("""\
defaults: {class: public}
weights: {quality: 1}
prefer:
  - {id: cloud-waits, when: 'target.waiting > 4 && target.kind == "cloud"', target: cloud, weight: -1}
  - {id: edge-waits, when: 'target.waiting > 4', target: edge, weight: -1}
""")
    idle, busy = make.target("edge"), replace(make.target("cloud"), waiting=5)
    verdict = decide(policy, make.view(), make.snapshot(idle, busy))
    assert ([found.target for found in verdict.eligible], verdict.rules) == (["edge", "cloud"], ("cloud-waits",))
    assert verdict.reason == "preferred:cloud-waits"
    unknown = decide(policy, make.view(), make.snapshot(idle, make.target("cloud")))
    assert unknown.rules == (), "a queue of which nobody tells is empty"


def test_a_typo_in_a_hint_is_found_at_load(make: SimpleNamespace) -> None:
    rule = "prefer:\n  - {{id: a, when: '{when}', target: edge, weight: 0.1}}\n"
    for when, meant in (
        ("client.save_dta", "client.save_data"),
        ('client.network == "celular"', "cellular"),
        ('device.connectivity == "of-line"', "offline"),
        ("target.wating > 3", "target.waiting"),
    ):
        with pytest.raises(PolicyError, match=rf"did you mean `{meant}`\?"):
            make.policy(rule.format(when=when))


def test_a_preference_that_can_never_fire_is_found_through_hints_too(make: SimpleNamespace) -> None:
    policy = make.policy("""\
prefer:
  - {id: never, when: 'target.waiting > 4 && target.waiting < 3', target: edge, weight: 0.1}
  - {id: at-times, when: 'client.battery_percent < 20 && device.free_memory_mb > 100', target: edge, weight: 0.1}
""")
    assert [warning.message.split("`")[1] for warning in lint(policy)] == ["never"]


def test_equal_hints_and_states_give_an_equal_digest_and_any_difference_another(make: SimpleNamespace) -> None:
    policy, view, snapshot = make.policy(), make.view(), make.snapshot()
    busy = make.snapshot(replace(make.target("edge"), waiting=3), make.target("cloud"))
    inputs = [
        (view, snapshot),
        (replace(view, hints=Hints(metered=True)), snapshot),
        (replace(view, hints=Hints(battery_percent=3)), snapshot),
        (view, replace(snapshot, device=Device(Connectivity.OFFLINE))),
        (view, replace(snapshot, device=Device(free_memory_mb=10.0))),
        (view, busy),
    ]
    assert len({decide(policy, *each).digest for each in inputs}) == len(inputs)


GIVEN = {
    "label.level": ("label.level == INTERNAL", "label: {class: internal}"),
    "label.tags": ('"a" in label.tags', "label: {tags: [a]}"),
    "label.causes": ('"image" in label.causes', "label: {causes: [image]}"),
    "deadline.total_ms": ("deadline.total_ms <= 7", "total_ms: 7"),
    "deadline.ttft_ms": ("deadline.ttft_ms <= 7", "ttft_ms: 7"),
    "size.tokens": ("size.tokens == 7", "tokens: 7"),
    "size.body_bytes": ("size.body_bytes == 7", "request: {body_bytes: 7}"),
    "request.task": ('request.task == "embedding"', "request: {task: embedding}"),
    "request.model": ('request.model == "m"', "request: {model: m}"),
    "request.stream": ("!request.stream", "request: {stream: false}"),
    "request.tools": ("request.tools", "request: {tools: true}"),
    "request.schema": ("request.schema", "request: {schema: true}"),
    "request.images": ("request.images", "request: {images: true}"),
    "request.audio": ("request.audio", "request: {audio: true}"),
    "request.output_cap": ("request.output_cap == 7", "request: {output_cap: 7}"),
    "tenant.id": ('tenant.id == "a"', "tenant: {id: a}"),
    "tenant.roles": ('"a" in tenant.roles', "tenant: {roles: [a]}"),
    "tenant.residency": ('tenant.residency == "eu"', "residency: eu"),
    "client.save_data": ("client.save_data", "client: {save_data: true}"),
    "client.network": ('client.network == "wifi"', "client: {network: wifi}"),
    "client.metered": ("client.metered", "client: {metered: true}"),
    "client.effective_type": ('client.effective_type == "2g"', "client: {effective_type: 2g}"),
    "client.battery_percent": ("client.battery_percent < 5", "client: {battery_percent: 4}"),
    "client.charging": ("client.charging", "client: {charging: true}"),
    "device.connectivity": ('device.connectivity == "offline"', "device: {connectivity: offline}"),
    "device.free_memory_mb": ("device.free_memory_mb < 5", "device: {free_memory_mb: 4}"),
    "target.waiting": ("target.waiting > 3", "targets: {edge: {waiting: 4}}"),
}


def test_what_a_condition_can_read_an_example_in_the_file_can_give(make: SimpleNamespace) -> None:
    assert set(GIVEN) == {known.name for known in REQUEST_NAMES} | SOFT
    for when, given_there in GIVEN.values():
        rule = f"prefer: [{{id: a, when: '{when}', target: edge, weight: 0.1}}]\n"
        told = f"tests:\n  - {{name: told, given: {{{given_there}}}, expect: {{rule: a}}}}\n"
        assert run_tests(make.policy(rule + told)).failures == (), when
        untold = "tests:\n  - {name: untold, expect: {rule: a}}\n"
        assert run_tests(make.policy(rule + untold)).failures, when

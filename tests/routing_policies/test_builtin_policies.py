from __future__ import annotations

from types import SimpleNamespace

import pytest

from routing_policies.decide import decide
from routing_policies.policy.loader import builtin_names, load_policy
from routing_policies.policy.self_test import Failure, run_tests
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Health
from routing_policies.verdict import Verdict


def order(verdict: Verdict) -> list[str]:
    return [found.target for found in verdict.eligible]


@pytest.mark.parametrize("name", builtin_names())
def test_a_built_in_policy_passes_its_own_tests_and_they_touch_every_rule(name: str) -> None:
    loaded = load_policy(name)
    assert loaded.policy.name == name
    report = run_tests(loaded)
    assert (report.failures, report.untouched) == ((), ())
    assert report.tests


def test_a_failing_example_says_what_came_instead(make: SimpleNamespace) -> None:
    policy = make.policy("""\
defaults: {class: public}
weights: {quality: 1}
constraints:
  - {id: idle, when: request.images, deny: [cloud]}
tests:
  - {name: holds, expect: {target: cloud, eligible: [cloud, edge]}}
  - {name: wrong target, expect: {target: edge}}
  - {name: wrong set, given: {label: {class: restricted}}, expect: {eligible: []}}
  - {name: wrong rule, expect: {rule: idle}}
  - {name: nobody left, given: {targets: {edge: {health: down}, cloud: {health: down}}}, expect: {target: edge}}
""")
    assert run_tests(policy).failures == (
        Failure("wrong target", "expected target edge, got cloud (highest-score)"),
        Failure("wrong set", "expected eligible none, got edge"),
        Failure("wrong rule", "expected the rule idle to take part, got none"),
        Failure("nobody left", "expected target edge, got none (none-eligible)"),
    )


@pytest.mark.parametrize("window", [2048, 8192])
@pytest.mark.parametrize("predicted", [True, False])
def test_balanced_answers_short_public_requests_here_and_long_ones_in_the_cloud(
    window: int, predicted: bool, make: SimpleNamespace
) -> None:
    policy = load_policy("balanced")
    snapshot = make.snapshot(
        make.target("edge", window=window, prediction=make.prediction(900) if predicted else None),
        make.target("cloud", window=8192, prediction=make.prediction(5000) if predicted else None),
    )
    assert order(decide(policy, make.view(tokens=40), snapshot))[0] == "edge"
    assert order(decide(policy, make.view(tokens=40, total_ms=600_000), snapshot))[0] == "edge"
    assert order(decide(policy, make.view(tokens=int(window * 0.35)), snapshot))[0] == "cloud"
    assert order(decide(policy, make.view(tokens=6000), snapshot))[0] == "cloud"


@pytest.mark.parametrize(("edge_ms", "cloud_ms", "first"), [(900, 300, "cloud"), (300, 900, "edge")])
def test_balanced_gives_a_tight_budget_to_whichever_is_predicted_faster(
    edge_ms: float, cloud_ms: float, first: str, make: SimpleNamespace
) -> None:
    snapshot = make.snapshot(
        make.target("edge", prediction=make.prediction(edge_ms, spread=0.5)),
        make.target("cloud", prediction=make.prediction(cloud_ms, spread=0.5)),
    )
    for budget_ms in (350, 600, 850):
        verdict = decide(load_policy("balanced"), make.view(total_ms=budget_ms), snapshot)
        assert order(verdict)[0] == first, budget_ms
    assert decide(load_policy("balanced"), make.view(total_ms=100), snapshot).reason == "budget-unlikely"


@pytest.mark.parametrize("name", sorted(set(builtin_names()) - {"healthcare", "eu-residency"}))
@pytest.mark.parametrize("level", [DataClass.CONFIDENTIAL, DataClass.RESTRICTED])
@pytest.mark.parametrize("health", [Health.UP, Health.DOWN])
def test_nothing_above_internal_leaves_the_device_whatever_the_rest(
    name: str, level: DataClass, health: Health, make: SimpleNamespace
) -> None:
    snapshot = make.snapshot(
        make.target("edge", health, prediction=make.prediction(90_000)),
        make.target("cloud", prediction=make.prediction(1)),
    )
    verdict = decide(load_policy(name), make.view(level, tokens=6000, total_ms=50), snapshot)
    assert order(verdict) == (["edge"] if health is Health.UP else [])
    assert "confidential-stays" in verdict.rules


def test_balanced_sends_public_requests_to_the_cloud_while_the_edge_is_down(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", Health.DOWN), make.target("cloud"))
    assert order(decide(load_policy("balanced"), make.view(), snapshot)) == ["cloud"]


def test_private_first_calls_confidential_what_nobody_has_labelled() -> None:
    assert load_policy("private-first").label_rules.default is DataClass.CONFIDENTIAL
    assert load_policy("balanced").label_rules.default is DataClass.PUBLIC

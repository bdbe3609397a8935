from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing_policies.decide import decide
from routing_policies.signals.label import DataClass, Label
from routing_policies.snapshot import Health
from routing_policies.verdict import Eligible, ExclusionKind, Transform, Verdict
from routing_policies.view import Tenant


def order(verdict: Verdict) -> list[str]:
    return [found.target for found in verdict.eligible]


ONLY_DEADLINE = "weights: {deadline: 1}\n"


@pytest.mark.parametrize("faster", ["edge", "cloud"])
def test_a_tight_budget_goes_to_whichever_is_predicted_faster(faster: str, make: SimpleNamespace) -> None:
    slower = "cloud" if faster == "edge" else "edge"
    snapshot = make.snapshot(
        make.target(faster, prediction=make.prediction(300)), make.target(slower, prediction=make.prediction(900))
    )
    verdict = decide(make.policy(ONLY_DEADLINE), make.view(total_ms=500), snapshot)
    assert order(verdict) == [faster, slower]
    assert verdict.reason == "highest-score"
    assert verdict.scores.latency == pytest.approx(300 / 500)


def test_a_budget_to_first_content_looks_at_the_time_to_first_content(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(
        make.target("edge", prediction=make.prediction(2000, ttft_ms=50)),
        make.target("cloud", prediction=make.prediction(600, ttft_ms=400)),
    )
    assert order(decide(make.policy(ONLY_DEADLINE), make.view(ttft_ms=200), snapshot))[0] == "edge"
    assert order(decide(make.policy(ONLY_DEADLINE), make.view(total_ms=800), snapshot))[0] == "cloud"


def test_without_a_budget_predictions_do_not_matter(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(
        make.target("edge", prediction=make.prediction(90_000)), make.target("cloud", prediction=make.prediction(1))
    )
    verdict = decide(make.policy(ONLY_DEADLINE), make.view(), snapshot)
    assert order(verdict) == ["edge", "cloud"]
    assert verdict.terms["edge"].deadline == verdict.terms["cloud"].deadline == 1.0
    assert verdict.scores.latency == 0.0
    assert verdict.reason == "declared-order"


def test_a_budget_that_nobody_is_likely_to_make_goes_to_the_likeliest(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(
        make.target("edge", prediction=make.prediction(900)), make.target("cloud", prediction=make.prediction(700))
    )
    by_quality = make.policy("weights: {quality: 1}\nprefer:\n  - {id: here, target: edge, weight: 1}\n")
    verdict = decide(by_quality, make.view(total_ms=500), snapshot)
    assert (order(verdict), verdict.reason) == (["cloud", "edge"], "budget-unlikely")
    assert decide(by_quality, make.view(DataClass.RESTRICTED, total_ms=500), snapshot).reason == "budget-unlikely"


def test_late_refuse_does_not_begin_what_is_unlikely_to_make_it(make: SimpleNamespace) -> None:
    policy = make.policy("defaults: {late: refuse}\n")
    snapshot = make.snapshot(
        make.target("edge", prediction=make.prediction(900)), make.target("cloud", prediction=make.prediction(700))
    )
    verdict = decide(policy, make.view(total_ms=500), snapshot)
    assert (order(verdict), verdict.reason) == ([], "none-eligible")
    assert {exclusion.kind for exclusion in verdict.excluded.values()} == {ExclusionKind.BUDGET}
    assert order(decide(policy, make.view(total_ms=800), snapshot)) == ["cloud", "edge"]


def test_a_budget_that_has_run_out_is_unlikely_for_everyone(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(*(make.target(n, prediction=make.prediction(10)) for n in ("edge", "cloud")))
    verdict = decide(make.policy(), make.view(total_ms=-1), snapshot)
    assert verdict.reason == "budget-unlikely"
    assert verdict.scores.latency == 1.0


def test_missing_data_counts_half_and_is_named(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", window=None), make.target("cloud", window=None))
    verdict = decide(make.policy(), make.view(total_ms=500), snapshot)
    assert verdict.terms["edge"].missing == ("deadline", "fit", "cost", "energy")
    assert verdict.terms["edge"].deadline == verdict.terms["edge"].cost == 0.5
    assert verdict.scores.missing == ("latency", "size")
    assert (verdict.scores.latency, verdict.scores.size) == (0.5, 0.5)
    assert verdict.reason == "highest-score", "not to know is not to be unlikely"


def test_exposure_is_full_on_the_device_and_shrinks_as_the_class_nears_the_clearance(make: SimpleNamespace) -> None:
    policy = make.policy(base=make_targets(edge="restricted", cloud="restricted"))
    exposures = [
        {name: round(t.exposure, 3) for name, t in decide(policy, make.view(level), make.snapshot()).terms.items()}
        for level in DataClass
    ]
    assert [found["edge"] for found in exposures] == [1.0, 1.0, 1.0, 1.0]
    assert [found["cloud"] for found in exposures] == [1.0, 0.667, 0.333, 0.0]
    lowest = make.policy(base=make_targets(edge="restricted", cloud="public"))
    assert decide(lowest, make.view(), make.snapshot()).terms["cloud"].exposure == 1.0


def make_targets(edge: str, cloud: str) -> str:
    return (
        "apiVersion: tidegate/v1\nname: two\ntargets:\n"
        f"  edge: {{kind: edge, clearance: {edge}, price: {{input: 1, output: 2, per: 100}}, power: {{watts: 5}}}}\n"
        f"  cloud: {{kind: cloud, clearance: {cloud}, price: {{input: 4, output: 2, per: 100}}, "
        "power: {watts: 10}}\n"
    )


def test_cost_and_energy_are_shares_of_the_most_among_the_eligible(make: SimpleNamespace) -> None:
    policy = make.policy(base=make_targets("restricted", "internal"))
    snapshot = make.snapshot(
        make.target("edge", prediction=make.prediction(1000, output_tokens=50)),
        make.target("cloud", prediction=make.prediction(1000, output_tokens=50)),
    )
    terms = decide(policy, make.view(tokens=100), snapshot).terms
    # edge: (100 * 1 + 50 * 2) / 100 = 2, cloud: (100 * 4 + 50 * 2) / 100 = 5; 5 J and 10 J.
    assert (terms["edge"].cost, terms["cloud"].cost) == (pytest.approx(1 - 2 / 5), 0.0)
    assert (terms["edge"].energy, terms["cloud"].energy) == (0.5, 0.0)
    alone = decide(policy, make.view(DataClass.RESTRICTED), snapshot).terms
    assert alone["edge"].cost == 0.0


def test_targets_of_every_kind_are_rated_by_shares_of_the_most_among_those_that_may_answer(
    make: SimpleNamespace,
) -> None:
    """Of one request: 100 input tokens and 50 expected ones, 2 seconds at each target."""
    policy = make.policy(
        base="""\
apiVersion: tidegate/v1
name: five
defaults: {class: internal}
targets:
  phone:  {kind: edge, clearance: restricted, price: {input: 0, output: 0}, power: {watts: 4}}
  rack:   {kind: onprem, clearance: restricted, price: {input: 2, output: 2, per: 100}, power: {watts: 10}}
  region: {kind: cloud, clearance: confidential, region: eu-west-1, price: {input: 4, output: 2, per: 100}}
  branch: {kind: tidegate, clearance: confidential, region: eu-branch, price: {input: 2, output: 6, per: 100}}
  far:    {kind: cloud, clearance: restricted, region: us-east-1, price: {input: 50, output: 50, per: 100}}
constraints:
  - id: eu
    when: 'tenant.residency == "eu"'
    require: 'target.kind in ["edge", "onprem"] || target.region.startsWith("eu")'
weights: {cost: 3, energy: 1}
"""
    )
    prediction = make.prediction(2000, output_tokens=50)
    snapshot = make.snapshot(*[make.target(name, prediction=prediction) for name in policy.policy.targets])
    view = make.view(DataClass.INTERNAL, tokens=100, tenant=Tenant("t", residency="eu"))
    terms = decide(policy, view, snapshot).terms
    # 0, 3, 5 and 5; `far` would cost 75 and may not answer, so the most is 5.
    assert {name: found.cost for name, found in terms.items()} == pytest.approx(
        {"phone": 1.0, "rack": 1 - 3 / 5, "region": 0.0, "branch": 0.0}
    )
    # 8 J and 20 J; of the others nobody says.
    assert {name: found.energy for name, found in terms.items()} == pytest.approx(
        {"phone": 1 - 8 / 20, "rack": 0.0, "region": 0.5, "branch": 0.5}
    )
    assert {name: found.score for name, found in terms.items()} == pytest.approx(
        {"phone": 0.75 + 0.25 * 0.6, "rack": 0.75 * 0.4, "region": 0.25 * 0.5, "branch": 0.25 * 0.5}
    )
    assert [found.target for found in decide(policy, view, snapshot).eligible] == ["phone", "rack", "region", "branch"]


def test_a_preference_lifts_a_target_and_is_named_as_the_reason(make: SimpleNamespace) -> None:
    rules = """\
weights: {quality: 1}
prefer:
  - {id: idle, when: request.images, target: edge, weight: 1}
  - {id: here, when: request.stream, target: edge, weight: 0.5}
"""
    verdict = decide(make.policy(rules), make.view(), make.snapshot())
    assert (order(verdict), verdict.reason, verdict.rules) == (["edge", "cloud"], "preferred:here", ("here",))
    assert verdict.terms["edge"].score == pytest.approx(0.6 + 0.5)
    against = make.policy("weights: {quality: 1}\nprefer:\n  - {id: away, target: cloud, weight: -0.5}\n")
    assert decide(against, make.view(), make.snapshot()).reason == "preferred:away"
    in_vain = make.policy("weights: {quality: 1}\nprefer:\n  - {id: here, target: edge, weight: 0.1}\n")
    assert decide(in_vain, make.view(), make.snapshot()).reason == "highest-score"


def test_no_preference_brings_back_what_is_excluded(make: SimpleNamespace) -> None:
    policy = make.policy("prefer:\n  - {id: there, target: cloud, weight: 1}\n")
    assert order(decide(policy, make.view(DataClass.RESTRICTED), make.snapshot())) == ["edge"]


def test_the_reason_says_when_there_is_no_choice(make: SimpleNamespace) -> None:
    assert decide(make.policy(), make.view(DataClass.RESTRICTED), make.snapshot()).reason == "only-eligible"
    down = make.snapshot(make.target("edge", Health.DOWN), make.target("cloud"))
    assert decide(make.policy(), make.view(DataClass.RESTRICTED), down).reason == "none-eligible"


def test_weights_count_by_their_share(make: SimpleNamespace) -> None:
    small, large = (make.policy(f"weights: {{quality: {w}, exposure: {w * 3}}}\n") for w in (0.1, 10))
    assert small.weights == pytest.approx(large.weights)
    assert small.weights["exposure"] == pytest.approx(0.75)


def test_bodies_leave_untransformed(make: SimpleNamespace) -> None:
    verdict = decide(make.policy(), make.view(), make.snapshot())
    assert set(verdict.eligible) == {Eligible("edge", Transform.NONE), Eligible("cloud", Transform.NONE)}


def test_equal_inputs_give_an_equal_verdict_and_any_difference_another_digest(make: SimpleNamespace) -> None:
    policy, view, snapshot = make.policy(), make.view(tags={"a", "b"}), make.snapshot()
    verdict = decide(policy, view, snapshot)
    again = decide(make.policy(), make.view(tags={"b", "a"}), make.snapshot())
    assert verdict == again
    others = [
        decide(make.policy("defaults: {max_tokens: 9}\n"), view, snapshot),
        decide(policy, make.view(tags={"a"}), snapshot),
        decide(policy, replace(view, label=Label(DataClass.INTERNAL)), snapshot),
        decide(policy, make.view(tags={"a", "b"}, total_ms=5), snapshot),
        decide(policy, make.view(tags={"a", "b"}, tokens=101), snapshot),
        decide(policy, replace(view, output_cap=7), snapshot),
        decide(policy, view, make.snapshot(seed=1)),
        decide(policy, view, make.snapshot(make.target("edge", Health.DOWN), make.target("cloud"))),
        decide(policy, view, make.snapshot(make.target("edge", prediction=make.prediction(5)), make.target("cloud"))),
    ]
    assert len({found.digest for found in [verdict, *others]}) == len(others) + 1


def test_the_digest_is_the_same_in_every_process(make: SimpleNamespace) -> None:
    """Sets iterate in another order there, since strings hash differently."""
    script = """
from routing_policies.input_digest import digest_inputs
from routing_policies.signals.deadline import Deadline
from routing_policies.signals.label import Component, DataClass, Label
from routing_policies.signals.size import Size, TokenInterval
from routing_policies.snapshot import Snapshot
from routing_policies.view import RequestView, Tenant
from inference_protocol.request import Needs, Task
tags = frozenset("abcdefghij")
view = RequestView(Task.CHAT, "m", True, Needs(), Label(DataClass.PUBLIC, declared=Component(None, tags)),
                   Deadline(0.0), Size(TokenInterval(1, 1, 1), 1), 1, tenant=Tenant("t", tags))
print(digest_inputs("p", view, Snapshot({}, 0.0)))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


@given(
    level=st.sampled_from(DataClass),
    tokens=st.integers(0, 20_000),
    total_ms=st.none() | st.floats(-10, 1e6),
    ttft_ms=st.none() | st.floats(-10, 1e6),
    times=st.lists(st.none() | st.floats(1, 1e6), min_size=2, max_size=2),
    windows=st.lists(st.none() | st.integers(1, 20_000), min_size=2, max_size=2),
)
def test_scores_and_terms_stay_between_0_and_1_and_the_order_follows_the_scores(
    level: DataClass,
    tokens: int,
    total_ms: float | None,
    ttft_ms: float | None,
    times: list[float | None],
    windows: list[int | None],
    make: SimpleNamespace,
) -> None:
    snapshot = make.snapshot(
        *(
            make.target(name, window=window, prediction=None if time is None else make.prediction(time))
            for name, time, window in zip(("edge", "cloud"), times, windows, strict=True)
        )
    )
    policy = make.policy(base=make_targets("restricted", "confidential"))
    verdict = decide(policy, make.view(level, tokens=tokens, total_ms=total_ms, ttft_ms=ttft_ms), snapshot)
    numbers = [verdict.scores.latency, verdict.scores.privacy, verdict.scores.size]
    for terms in verdict.terms.values():
        numbers += [terms.deadline, terms.exposure, terms.fit, terms.cost, terms.energy, terms.quality, terms.score]
    assert all(0.0 <= number <= 1.0 for number in numbers)
    if verdict.reason != "budget-unlikely":
        scores = [verdict.terms[name].score for name in order(verdict)]
        assert scores == sorted(scores, reverse=True)

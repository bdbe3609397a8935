from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import cel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.request import Needs
from routing_policies.decide import decide
from routing_policies.eligibility import needs_exact_count
from routing_policies.policy.conditions import Condition
from routing_policies.policy.loader import LoadedPolicy, load_text
from routing_policies.policy.rules import HardRule
from routing_policies.signals.label import DataClass
from routing_policies.signals.size import TokenInterval
from routing_policies.snapshot import Health
from routing_policies.verdict import ExclusionKind, Verdict
from routing_policies.view import Tenant


def eligible(verdict: Verdict) -> list[str]:
    return [found.target for found in verdict.eligible]


def kind(verdict: Verdict, target: str) -> ExclusionKind:
    return verdict.excluded[target].kind


def test_a_target_is_not_eligible_above_its_clearance(make: SimpleNamespace) -> None:
    policy, snapshot = make.policy(), make.snapshot()
    assert eligible(decide(policy, make.view(DataClass.INTERNAL), snapshot)) == ["edge", "cloud"]
    verdict = decide(policy, make.view(DataClass.CONFIDENTIAL), snapshot)
    assert eligible(verdict) == ["edge"]
    assert kind(verdict, "cloud") is ExclusionKind.CLEARANCE


def test_a_tag_goes_only_where_it_is_allowed(make: SimpleNamespace) -> None:
    base = """\
apiVersion: tidegate/v1
name: tags
targets:
  edge: {kind: edge, clearance: restricted}
  strict-edge: {kind: edge, clearance: restricted, tags_allowed: [pii]}
  silent: {kind: onprem, clearance: restricted}
  none: {kind: cloud, clearance: restricted, tags_allowed: []}
  some: {kind: cloud, clearance: restricted, tags_allowed: [pii, phi]}
"""
    policy = make.policy(base=base)
    snapshot = make.snapshot(*(make.target(name) for name in policy.policy.targets))
    assert sorted(eligible(decide(policy, make.view(tags={"pii"}), snapshot))) == ["edge", "some", "strict-edge"]
    assert sorted(eligible(decide(policy, make.view(tags={"pii", "own"}), snapshot))) == ["edge"]
    assert len(eligible(decide(policy, make.view(), snapshot))) == 5


def test_a_constraint_denies_the_targets_it_names_when_it_matches(make: SimpleNamespace) -> None:
    policy = make.policy("constraints:\n  - {id: no-tools, when: request.tools, deny: [cloud]}\n")
    verdict = decide(policy, make.view(needs=Needs(tools=True)), make.snapshot())
    assert eligible(verdict) == ["edge"]
    assert verdict.excluded["cloud"].rule == "no-tools"
    assert verdict.rules == ("no-tools",)
    assert decide(policy, make.view(), make.snapshot()).rules == ()


def test_only_deny_rules_leave_the_other_targets_eligible(make: SimpleNamespace) -> None:
    policy = make.policy("constraints:\n  - {id: out, deny: [cloud]}\n")
    assert eligible(decide(policy, make.view(), make.snapshot())) == ["edge"]


@pytest.mark.parametrize("section", ["constraints", "invariants"])
def test_a_requirement_excludes_the_targets_that_do_not_fulfil_it(section: str, make: SimpleNamespace) -> None:
    policy = make.unproved(f"""\
{section}:
  - id: eu-only
    when: 'tenant.residency == "eu"'
    require: 'target.kind == "edge" || request.stream == false'
""")
    european = decide(policy, make.view(tenant=Tenant("t", residency="eu")), make.snapshot())
    assert eligible(european) == ["edge"]
    assert (kind(european, "cloud"), european.excluded["cloud"].rule) == (ExclusionKind.CONSTRAINT, "eu-only")
    fulfilled = replace(make.view(tenant=Tenant("t", residency="eu")), stream=False)
    assert sorted(eligible(decide(policy, fulfilled, make.snapshot()))) == ["cloud", "edge"]
    assert sorted(eligible(decide(policy, make.view(), make.snapshot()))) == ["cloud", "edge"]


@pytest.mark.parametrize(
    ("needs", "can"),
    [
        (Needs(tools=True), {"tools": True}),
        (Needs(schema=True), {"json_schema": True}),
        (Needs(images=True), {"images": True}),
        (Needs(audio=True), {"audio": True}),
        (Needs(logprobs=True), {"logprobs": True}),
        (Needs(n=3), {"max_n": 3}),
        (Needs(parameters=("logit_bias", "min_p")), {"parameters": frozenset({"logit_bias", "min_p"})}),
    ],
)
def test_a_target_that_cannot_do_what_is_needed_is_not_eligible(
    needs: Needs, can: dict[str, object], make: SimpleNamespace
) -> None:
    nothing = {"tools": False, "json_schema": False, "logprobs": False}
    snapshot = make.snapshot(make.target("edge", **nothing), make.target("cloud", **{**nothing, **can}))
    verdict = decide(make.policy(), make.view(needs=needs), snapshot)
    assert eligible(verdict) == ["cloud"]
    assert kind(verdict, "edge") is ExclusionKind.CAPABILITY


def test_a_default_cap_need_not_fit_the_window(make: SimpleNamespace) -> None:
    tight = make.view(tokens=TokenInterval(999, 999, 999), output_cap=512)
    snapshot = make.snapshot(make.target("edge", window=1000), make.target("cloud", window=1000))
    assert not decide(make.policy(), tight, snapshot).eligible
    assert len(decide(make.policy(), replace(tight, cap_is_own=False), snapshot).eligible) == 2


def test_prompt_and_output_cap_must_fit_the_window_by_the_safe_bound(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", window=1000), make.target("cloud", window=None))
    fits = make.view(tokens=TokenInterval(700, 800, 900), output_cap=100)
    assert eligible(decide(make.policy(), fits, snapshot)) == ["cloud", "edge"]
    verdict = decide(make.policy(), replace(fits, output_cap=101), snapshot)
    assert eligible(verdict) == ["cloud"]
    assert kind(verdict, "edge") is ExclusionKind.WINDOW


@pytest.mark.parametrize("health", [Health.DOWN, Health.STARTING, Health.DRAINING])
def test_a_target_that_cannot_be_asked_now_is_not_eligible(health: Health, make: SimpleNamespace) -> None:
    verdict = decide(make.policy(), make.view(), make.snapshot(make.target("edge", health), make.target("cloud")))
    assert eligible(verdict) == ["cloud"]
    assert kind(verdict, "edge") is ExclusionKind.DOWN


def test_a_target_that_nobody_has_asked_yet_may_be_tried(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", Health.UNKNOWN), make.target("cloud"))
    assert "edge" in eligible(decide(make.policy(), make.view(), snapshot))


def test_a_target_that_does_not_serve_the_model_is_not_eligible(make: SimpleNamespace) -> None:
    snapshot = make.snapshot(make.target("edge", served_model=None), make.target("cloud"))
    verdict = decide(make.policy(), make.view(), snapshot)
    assert kind(verdict, "edge") is ExclusionKind.MODEL


def test_a_target_of_only_the_policy_or_only_the_settings_is_not_eligible(make: SimpleNamespace) -> None:
    verdict = decide(make.policy(), make.view(), make.snapshot(make.target("edge"), make.target("other")))
    assert eligible(verdict) == ["edge"]
    assert kind(verdict, "cloud") is kind(verdict, "other") is ExclusionKind.NOT_CONFIGURED


def test_a_hidden_reason_never_outranks_what_the_policy_says(make: SimpleNamespace) -> None:
    """A target that is down and not cleared counts as not cleared: bringing it up would not help."""
    snapshot = make.snapshot(make.target("edge"), make.target("cloud", Health.DOWN, window=1))
    assert kind(decide(make.policy(), make.view(DataClass.RESTRICTED), snapshot), "cloud") is ExclusionKind.CLEARANCE


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (TokenInterval(300, 300, 300), False),
        (TokenInterval(100, 200, 299), False),
        (TokenInterval(100, 200, 300), True),
        (TokenInterval(301, 400, 500), False),
        (TokenInterval(800, 850, 900), False),
        (TokenInterval(800, 850, 901), True),
        (TokenInterval(901, 950, 990), False),
    ],
)
def test_tokens_are_counted_only_where_their_bounds_leave_a_rule_or_a_window_open(
    tokens: TokenInterval, expected: bool, make: SimpleNamespace
) -> None:
    rules = "constraints:\n  - {id: long, when: 'size.tokens > 300', deny: [cloud]}\n"
    soft = "prefer:\n  - {id: soft, when: 'size.tokens > 150', target: edge, weight: 0.1}\n"
    windows = {"edge": 1000, "cloud": None}
    assert needs_exact_count(make.policy(rules + soft), make.view(tokens=tokens), windows) is expected


def test_bounds_that_leave_a_rule_open_restrict_until_tokens_are_counted(make: SimpleNamespace) -> None:
    policy = make.policy("constraints:\n  - {id: long, when: 'size.tokens > 300', deny: [cloud]}\n")
    verdict = decide(policy, make.view(tokens=TokenInterval(100, 150, 400)), make.snapshot())
    assert eligible(verdict) == ["edge"]
    assert verdict.notes == ("long: `when` could not be evaluated, so the rule was applied",)


BROKEN = ["label.nowhere > 1", "nowhere", "1", '"text"', "true && 1", "1 / 0 == 1", "[1]", "null"]


def unchecked(source: str) -> Condition:
    """A condition as it would be if the check at load had missed its fault."""
    return Condition(source, cel.compile(source))


@pytest.mark.parametrize("source", BROKEN)
def test_a_condition_that_fails_to_evaluate_restricts_and_is_noted(source: str, make: SimpleNamespace) -> None:
    always = unchecked("true")
    denies = HardRule("denies", unchecked(source), denied=frozenset({"cloud"}))
    requires = HardRule("requires", always, require=unchecked(source))
    for rule in (denies, requires):
        policy = replace(make.policy(), constraints=(rule,))
        verdict = decide(policy, make.view(), make.snapshot())
        assert "cloud" not in eligible(verdict)
        assert verdict.notes
        assert verdict.notes[0].startswith(f"{rule.id}: ")


targets = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["edge", "onprem", "cloud", "tidegate"]),
        "clearance": st.sampled_from([level.word for level in DataClass]),
        "tags_allowed": st.sampled_from([None, [], ["pii"], ["pii", "phi"]]),
    }
)
rules = st.sampled_from(
    [
        "{id: RULE, when: 'label.level >= INTERNAL', deny: [t0]}",
        "{id: RULE, when: '\"pii\" in label.tags', require: 'target.clearance >= CONFIDENTIAL'}",
        "{id: RULE, require: 'label.level <= target.clearance'}",
        "{id: RULE, when: 'size.tokens > 300', deny: [t0]}",
    ]
)


def written(targets: list[dict[str, object]], rules: list[str]) -> LoadedPolicy:
    lines = ["apiVersion: tidegate/v1", "name: random", "targets:"]
    for index, target in enumerate(targets):
        tags = "" if target["tags_allowed"] is None else f", tags_allowed: {target['tags_allowed']}"
        lines.append(f"  t{index}: {{kind: {target['kind']}, clearance: {target['clearance']}{tags}}}")
    lines.append("constraints:" if rules else "constraints: []")
    lines += [f"  - {rule.replace('RULE', f'r{index}')}" for index, rule in enumerate(rules)]
    return load_text("\n".join(lines), "random.yaml")


@given(
    targets=st.lists(targets, min_size=1, max_size=4),
    rules=st.lists(rules, max_size=4),
    health=st.lists(st.sampled_from(Health), min_size=4, max_size=4),
    level=st.sampled_from(DataClass),
    tags=st.sets(st.sampled_from(["pii", "phi", "own"])),
    bounds=st.tuples(st.integers(0, 600), st.integers(0, 600), st.integers(0, 600)).map(sorted),
    total_ms=st.none() | st.floats(0.1, 1e5),
    broken=st.lists(st.sampled_from(BROKEN), max_size=2),
)
def test_no_policy_label_health_or_broken_condition_makes_a_target_eligible_beyond_its_promise(
    *,
    targets: list[dict[str, object]],
    rules: list[str],
    health: list[Health],
    level: DataClass,
    tags: set[str],
    bounds: list[int],
    total_ms: float | None,
    broken: list[str],
    make: SimpleNamespace,
) -> None:
    policy = written(targets, rules)
    found = [make.target(name, health[i]) for i, name in enumerate(policy.policy.targets)]
    snapshot = make.snapshot(*found)
    view = make.view(level, tags, tokens=TokenInterval(*bounds), total_ms=total_ms)
    verdict = decide(policy, view, snapshot)
    for name in eligible(verdict):
        promise = policy.policy.targets[name]
        assert level <= promise.clearance
        assert all(promise.allows_tag(tag) for tag in tags)
        assert snapshot.targets[name].health in {Health.UP, Health.UNKNOWN}
    assert set(eligible(verdict)) | set(verdict.excluded) == set(policy.policy.targets)
    assert set(verdict.terms) == set(eligible(verdict))
    # Taking rules away never narrows, and a rule that cannot be evaluated never widens.
    without = set(eligible(decide(replace(policy, constraints=()), view, snapshot)))
    assert set(eligible(verdict)) <= without
    extra = tuple(
        HardRule(f"broken{i}", unchecked(source), denied=frozenset({"t0"}), require=None)
        for i, source in enumerate(broken)
    )
    with_broken = set(eligible(decide(replace(policy, constraints=(*policy.constraints, *extra)), view, snapshot)))
    assert with_broken == set(eligible(verdict)) - ({"t0"} if broken else set())

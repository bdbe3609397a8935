"""The prover against the evaluator that decides, and against an SMT solver, on policies nobody wrote."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from inference_protocol.text_parts import UninspectableCause
from routing_policies.decide import decide
from routing_policies.lab import z3_prover
from routing_policies.lab.prover import Finding, Prover
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loader import LoadedPolicy, builtin_names, load_text, read_policy, read_text
from routing_policies.signals.label import Component, DataClass
from routing_policies.view import Tenant
from tests.support.random_conditions import conditions, request_conditions

TARGETS = """\
apiVersion: tidegate/v1
name: random
targets:
  edge: {kind: edge, clearance: restricted, region: device}
  cloud: {kind: cloud, clearance: confidential, region: eu-west-1, tags_allowed: [phi], retention_days: 30}
  tokens: {kind: cloud, clearance: internal, region: us-east-1, pseudonymize: [pii, secret]}
"""


def quoted(condition: str) -> str:
    return "'" + condition.replace("'", "''") + "'"


def written(constraints: list[tuple[str, str]], invariant: tuple[str, str], name: str = "x") -> LoadedPolicy:
    lines = [TARGETS, "constraints:" if constraints else "constraints: []"]
    for index, (when, require) in enumerate(constraints):
        lines.append(f"  - {{id: r{index}, when: {quoted(when)}, require: {quoted(require)}}}")
    lines.append(f"invariants:\n  - {{id: {name}, when: {quoted(invariant[0])}, require: {quoted(invariant[1])}}}")
    return read_text("\n".join(lines), "random.yaml")


def without_invariants(policy: LoadedPolicy) -> LoadedPolicy:
    return replace(policy, constraints=policy.constraints[: len(policy.policy.constraints)])


def proved(policy: LoadedPolicy) -> Finding:
    (finding,) = Prover().prove(policy).findings
    return finding


rules = st.lists(st.tuples(request_conditions, conditions), max_size=2)


@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(constraints=rules, invariant=st.tuples(request_conditions, conditions))
def test_a_counterexample_breaks_the_invariant_when_it_is_really_decided(
    constraints: list[tuple[str, str]], invariant: tuple[str, str], make: SimpleNamespace
) -> None:
    policy = written(constraints, invariant)
    found = proved(policy).counterexample
    if found is None:
        return
    view = found.request.view(policy.policy, found.target)
    snapshot = replace(make.snapshot(*map(make.target, policy.policy.targets)), now=0.0)
    assert found.target in decide(without_invariants(policy), view, snapshot).terms
    assert decide(policy, view, snapshot).excluded[found.target].rule == "x", "still enforced at run time"


@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    constraints=rules,
    invariant=st.tuples(request_conditions, conditions),
    level=st.sampled_from(DataClass),
    tags=st.sets(st.sampled_from(["phi", "eu", "own", "eu-phi", "pii"])),
    findings=st.sets(st.sampled_from(["pii", "secret", "phi"])),
    roles=st.sets(st.sampled_from(["eu", "a", "us", ""])),
    words=st.tuples(*[st.sampled_from(["eu", "a", "us", ""])] * 2),
    total_ms=st.none() | st.sampled_from([0.5, 2.5, 3.0, 400.0, 500.0]),
    tokens=st.integers(0, 1000),
    output_cap=st.sampled_from([0, 1, 400, 401]),
)
def test_what_is_proved_no_request_breaks(
    *,
    constraints: list[tuple[str, str]],
    invariant: tuple[str, str],
    level: DataClass,
    tags: set[str],
    findings: set[str],
    roles: set[str],
    words: tuple[str, str],
    total_ms: float | None,
    tokens: int,
    output_cap: int,
    make: SimpleNamespace,
) -> None:
    policy = written(constraints, invariant)
    if not proved(policy).holds:
        return
    tenant = Tenant(words[0], frozenset(roles), words[1])
    view = make.view(level, tags, total_ms=total_ms, tokens=tokens, output_cap=output_cap, tenant=tenant)
    raised = Component(max(map(policy.label_rules.of_tag, findings), default=None), frozenset(findings))
    view = replace(view, label=replace(view.label, findings=raised))
    snapshot = make.snapshot(*map(make.target, policy.policy.targets))
    assert decide(policy, view, snapshot).eligible == decide(without_invariants(policy), view, snapshot).eligible


# Without shrinking, which runs the solver for minutes.
@settings(
    max_examples=25,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(constraints=rules, invariant=st.tuples(request_conditions, conditions))
def test_an_smt_solver_says_the_same(constraints: list[tuple[str, str]], invariant: tuple[str, str]) -> None:
    policy = written(constraints, invariant)
    first, second = proved(policy).holds, z3_prover.holds(policy, "x", timeout_ms=300)
    assert first is second or None in (first, second)


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_invariant_is_proved_and_the_solver_agrees(name: str) -> None:
    policy = read_policy(name)
    findings = Prover().prove(policy).findings
    assert findings
    for finding in findings:
        assert finding.holds
        assert z3_prover.holds(policy, finding.invariant)


@pytest.mark.parametrize(
    ("when", "require", "told"),
    [
        ("label.level >= CONFIDENTIAL", 'target.kind == "edge"', "class confidential"),
        ('"phi" in label.tags', 'target.kind == "edge"', "class public; label.tags phi"),
        ("size.tokens > 500", 'target.kind == "edge"', "class public; size.tokens 501"),
        ("deadline.ttft_ms < 200", 'target.kind == "edge"', "class public; deadline.ttft_ms 133"),
        ('tenant.residency == "us"', 'target.region.startsWith("us")', "class public; tenant.residency us"),
        ('"image" in label.causes', 'target.kind == "edge"', "class public; label.causes image"),
        ("tenant.id in tenant.roles", 'target.kind == "edge"', "class public; tenant.roles local"),
    ],
)
def test_the_counterexample_says_nothing_that_it_need_not(when: str, require: str, told: str) -> None:
    found = proved(written([], (when, require))).counterexample
    assert found is not None
    assert found.request.in_words() == told


def test_a_cause_stands_for_no_class_since_a_key_may_carry_its_own() -> None:
    policy = written([], ('"detector_error" in label.causes', 'target.kind == "edge"'))
    found = proved(policy).counterexample
    assert found is not None
    assert found.sent(policy)["caller"] == {"uninspected": {"detector_error": "public"}}


def test_a_default_budget_leaves_no_request_without_one() -> None:
    invariant = ("true", "deadline.total_ms < 5000")
    assert proved(written([], invariant)).holds is False
    text = TARGETS + "defaults: {total_ms: 4000}\nconstraints: [{id: a, when: deadline.total_ms >= 5000, deny: "
    bounded = read_text(
        text + "[edge, cloud, tokens]}]\ninvariants: [{id: x, require: deadline.total_ms < 5000}]\n", "d"
    )
    assert proved(bounded).holds


def test_a_failing_invariant_refuses_the_load_with_place_and_request() -> None:
    text = (
        TARGETS
        + "invariants:\n  - {id: phi-stays, when: '\"phi\" in label.tags', require: 'target.kind == \"edge\"'}\n"
    )
    with pytest.raises(PolicyError) as caught:
        load_text(text, "site.yaml")
    assert str(caught.value) == (
        "site.yaml:8:5: the invariant `phi-stays` does not hold: cloud may answer a request with class public; "
        "label.tags phi"
    )


def test_what_is_too_large_to_prove_is_refused_and_never_called_proved() -> None:
    when = " && ".join(f'"t{index}" in label.tags' for index in range(12))
    policy = written([(f"!({when})", "true || request.stream")], ("tenant.roles.exists(r, r == 'a')", "request.tools"))
    (finding,) = Prover(max_cells=3).prove(policy).findings
    assert finding.holds is None
    assert "not proved: too many cells" in finding.in_words()
    with pytest.raises(PolicyError, match="not proved: too many cells"):
        load_text(policy.source.text, "site.yaml", Prover(max_cells=3))
    parts = " || ".join(f'tenant.id.contains("{letter}")' for letter in "abcdefghij")
    assert proved(written([], (parts, "request.stream"))).holds is None


def test_a_prover_that_is_kept_proves_a_policy_once() -> None:
    prover = Prover()
    policy = read_policy("balanced")
    assert prover.prove(policy) is prover.prove(read_policy("balanced"))
    assert prover.prove(policy) is not Prover().prove(policy)


def test_a_counterexample_is_a_request_that_can_be_sent() -> None:
    when = '"image" in label.causes && request.tools && deadline.total_ms <= 250.5 && "phi" in label.tags'
    policy = written([], (when, 'target.kind == "edge"'))
    found = proved(policy).counterexample
    assert found is not None
    sent = found.sent(policy)
    assert sent["headers"]["x-data-class"] == "public"
    assert sent["headers"]["x-data-tags"] == "phi"
    assert 0 < float(sent["headers"]["x-latency-budget-ms"]) <= 250.5
    assert sent["body"]["tools"]
    assert any("image_url" in part for part in sent["body"]["messages"][0]["content"])
    view = found.request.view(read_policy("balanced").policy)
    assert view.label.causes == {UninspectableCause.IMAGE}
    assert view.deadline.first_content_at is None
    assert math.isfinite(view.deadline.total_at or math.inf)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("label.level >= RESTRICTED", False),  # a secret is replaced, and what is left is public
        ('label.level >= RESTRICTED && !("secret" in label.tags)', True),
        ('"phi" in label.tags', True),
        ('label.level == PUBLIC && "pii" in label.tags', True),  # declared, so not replaced; found, so confidential
        ('label.level == CONFIDENTIAL && "pii" in label.tags', False),
    ],
)
def test_a_target_that_is_sent_tokens_is_judged_by_the_label_of_what_is_sent(when: str, expected: bool) -> None:
    policy = written([("true", 'target.name in ["edge", "tokens"]')], (when, 'target.kind == "edge"'))
    assert proved(policy).holds is expected
    assert z3_prover.holds(policy, "x") is expected

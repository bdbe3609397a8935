from __future__ import annotations

from types import SimpleNamespace

import cel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.request import Needs
from inference_protocol.text_parts import UninspectableCause
from routing_policies.policy import names
from routing_policies.policy.conditions import Answer, Condition, Evaluation, Vocabulary, compile_condition
from routing_policies.policy.model import Kind, Target
from routing_policies.signals.label import DataClass
from routing_policies.signals.size import TokenInterval
from routing_policies.snapshot import Snapshot
from routing_policies.view import RequestView, Tenant
from tests.support.random_conditions import conditions

TARGETS = {
    "edge": Target(kind=Kind.EDGE, clearance=DataClass.RESTRICTED, region="device"),
    "cloud": Target(kind=Kind.CLOUD, clearance=DataClass.INTERNAL, region="eu-west-1", retention_days=30),
}


def compiled(source: str) -> Condition:
    return compile_condition(source, names.schema(TARGETS), names.Scope.REQUIRE)


def evaluation(view: RequestView, *conditions: Condition, target: str = "cloud") -> Evaluation:
    found = Evaluation.of_request(Vocabulary.of(conditions, TARGETS), view, Snapshot({}, now=1000.0))
    found.turn_to(target)
    return found


def answer(source: str, view: RequestView, target: str = "cloud") -> Answer:
    condition = compiled(source)
    return evaluation(view, condition, target=target).surely(condition)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("label.level >= CONFIDENTIAL", True),
        ("label.level == RESTRICTED", False),
        ("label.level in [CONFIDENTIAL, RESTRICTED]", True),
        ('"phi" in label.tags', True),
        ('label.tags.exists(t, t.startsWith("ph"))', True),
        ('label.tags.all(t, t == "phi")', False),
        ("label.tags.size() == 2", True),
        ('"image" in label.causes', True),
        ("deadline.total_ms < 300", True),
        ("deadline.total_ms <= 249.5", False),
        ("deadline.ttft_ms < 1000000000", False),
        ("size.tokens > 99 && size.tokens < 101", True),
        ('request.task == "chat" && request.stream && !request.images', True),
        ("request.tools != true", False),
        ("request.output_cap > 99", True),
        ('tenant.residency == "eu" || false', True),
        ('"admin" in tenant.roles', False),
        ('target.kind == "edge" || target.region.startsWith("eu")', True),
        ("target.clearance < label.level", True),
        ("target.retention_days <= 30", True),
        ("target.name in ['edge']", False),
        ('label.tags.exists(t, t == "label.level") || tenant.id != "tenant.id"', True),
        ('tenant.id == "a \\"b\\""', True),
    ],
)
def test_a_condition_says_what_it_reads_as(source: str, expected: bool, make: SimpleNamespace) -> None:
    view = make.view(
        level=DataClass.CONFIDENTIAL,
        tags={"phi", "eu"},
        total_ms=250,
        needs=Needs(tools=True),
        tenant=Tenant('a "b"', frozenset({"inference"}), "eu"),
        causes={UninspectableCause.IMAGE},
    )
    assert answer(source, view) is (Answer.TRUE if expected else Answer.FALSE)


def test_a_missing_budget_is_infinitely_long(make: SimpleNamespace) -> None:
    assert answer("deadline.total_ms < 300", make.view()) is Answer.FALSE
    assert answer("deadline.total_ms > 300 && deadline.ttft_ms > 300", make.view()) is Answer.TRUE


def test_an_undeclared_retention_is_infinitely_long(make: SimpleNamespace) -> None:
    assert answer("target.retention_days <= 30", make.view(), target="edge") is Answer.FALSE


@pytest.mark.parametrize(
    "source", ["label.nowhere > 1", "nowhere > 1", "1", '"Submit order"', "true && 1", "1 / 0 == 1"]
)
def test_whatever_is_not_true_or_false_is_an_error(source: str, make: SimpleNamespace) -> None:
    unchecked = Condition(source, cel.compile(source))
    assert evaluation(make.view(), compiled("label.level > PUBLIC")).surely(unchecked) is Answer.ERROR


def test_bounds_on_tokens_decide_a_hard_rule_only_away_from_its_threshold(make: SimpleNamespace) -> None:
    source = "size.tokens > 500"
    assert answer(source, make.view(tokens=TokenInterval(100, 300, 499))) is Answer.FALSE
    assert answer(source, make.view(tokens=TokenInterval(501, 700, 900))) is Answer.TRUE
    assert answer(source, make.view(tokens=TokenInterval(100, 600, 900))) is Answer.ERROR
    assert answer(source, make.view(tokens=TokenInterval(600, 600, 600))) is Answer.TRUE


def test_a_soft_rule_takes_the_likely_number_of_tokens(make: SimpleNamespace) -> None:
    condition = compiled("size.tokens > 500")
    view = make.view(tokens=TokenInterval(100, 600, 900))
    assert evaluation(view, condition).likely(condition) is Answer.TRUE


def test_only_names_that_conditions_read_are_handed_to_the_evaluator() -> None:
    condition = compiled('label.level > PUBLIC && target.kind == "edge"')
    vocabulary = Vocabulary.of([condition], TARGETS)
    assert [known.name for known in vocabulary.request] == ["label.level"]
    assert vocabulary.constants == {"PUBLIC": 0}
    assert vocabulary.targets == {"edge": {"target__kind": "edge"}, "cloud": {"target__kind": "cloud"}}


@given(
    source=conditions,
    level=st.sampled_from(DataClass),
    tags=st.sets(st.sampled_from(["phi", "eu", ""])),
    total_ms=st.none() | st.floats(0.001, 1e6),
    target=st.sampled_from(list(TARGETS)),
)
def test_whatever_passes_the_check_evaluates_to_true_or_false(
    source: str, level: DataClass, tags: set[str], total_ms: float | None, target: str, make: SimpleNamespace
) -> None:
    condition = compiled(source)
    view = make.view(level=level, tags=tags, total_ms=total_ms, tenant=Tenant("a", frozenset({"r"}), "eu"))
    assert evaluation(view, condition, target=target).surely(condition) is not Answer.ERROR

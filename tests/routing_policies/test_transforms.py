"""What replacing values changes of a label, and so of a decision: findings, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from inference_protocol.request import Task
from routing_policies.decide import decide
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.loader import load_text
from routing_policies.signals.label import (
    SCANNER,
    Component,
    DataClass,
    Finding,
    Label,
    ScanResult,
    is_spoken,
    label_of,
)
from routing_policies.transforms import label_as_sent, transform_for
from routing_policies.verdict import ExclusionKind, Transform, Verdict

POLICY = """\
apiVersion: tidegate/v1
name: replacing
defaults: {class: public}
findings: {pii: confidential, pci: restricted}
targets:
  edge:  {kind: edge, clearance: restricted}
  cloud: {kind: cloud, clearance: internal, pseudonymize: [pii]}
"""


def policy(more: str = "") -> LoadedPolicy:
    return load_text(POLICY + more, "replacing.yaml")


def label(*tags: str, fixed: tuple[str, ...] = (), **components: Component) -> Label:
    level = DataClass.RESTRICTED if "pci" in tags else DataClass.CONFIDENTIAL if tags else None
    return Label(DataClass.PUBLIC, findings=Component(level, frozenset(tags)), fixed=frozenset(fixed), **components)


def verdict(make: SimpleNamespace, found: Label, more: str = "") -> Verdict:
    view = make.view()
    object.__setattr__(view, "label", found)
    return decide(policy(more), view, make.snapshot())


def transforms(found: Verdict) -> dict[str, Transform]:
    return {eligible.target: eligible.transform for eligible in found.eligible}


def test_findings_that_are_replaced_do_not_count_against_a_target(make: SimpleNamespace) -> None:
    found = verdict(make, label("pii"))
    assert transforms(found) == {"edge": Transform.NONE, "cloud": Transform.PSEUDONYMIZE}
    assert found.label.level is DataClass.CONFIDENTIAL, "the request's own label stays what it is"


def test_nothing_is_replaced_where_nothing_was_found(make: SimpleNamespace) -> None:
    assert transforms(verdict(make, label()))["cloud"] is Transform.NONE


@pytest.mark.parametrize("component", ["declared", "key", "taint", "uninspected"])
def test_no_other_component_is_lowered(make: SimpleNamespace, component: str) -> None:
    found = verdict(make, label("pii", **{component: Component(DataClass.CONFIDENTIAL)}))
    assert found.excluded["cloud"].kind is ExclusionKind.CLEARANCE
    tagged = verdict(make, label("pii", **{component: Component(None, frozenset({"pii"}))}))
    assert tagged.excluded["cloud"].kind is ExclusionKind.TAG


def test_findings_of_other_tags_still_count(make: SimpleNamespace) -> None:
    assert "cloud" in verdict(make, label("pii", "pci")).excluded


def test_a_finding_where_no_token_can_stand_still_counts(make: SimpleNamespace) -> None:
    assert "cloud" in verdict(make, label("pii", fixed=("pii",))).excluded


def test_rules_see_the_request_as_it_came(make: SimpleNamespace) -> None:
    rule = "constraints:\n  - {id: pii-stays, when: '\"pii\" in label.tags', deny: [cloud]}\n"
    assert verdict(make, label("pii"), rule).excluded["cloud"].rule == "pii-stays"


def test_an_invariant_on_classes_does_not_hold_by_clearance_alone_where_values_are_replaced() -> None:
    broken = "invariants:\n  - {id: stays, when: 'label.level >= CONFIDENTIAL', require: 'target.kind == \"edge\"'}\n"
    with pytest.raises(PolicyError, match="stays"):
        policy(broken)


def test_only_findings_can_be_named_to_be_replaced() -> None:
    with pytest.raises(PolicyError, match="pseudonymize"):
        load_text(POLICY.replace("[pii]", "[export]"), "replacing.yaml")


def test_what_is_sent_has_the_class_of_what_is_left_in_it() -> None:
    promise, rules = policy().policy.targets["cloud"], policy().label_rules
    assert label_as_sent(promise, label("pii"), rules, Task.CHAT).level is DataClass.PUBLIC
    assert label_as_sent(promise, label("pii", "pci"), rules, Task.CHAT).findings == Component(
        DataClass.RESTRICTED, frozenset({"pci"})
    )
    assert transform_for(promise, label("pci"), Task.CHAT) is Transform.NONE


def test_nothing_is_replaced_in_tensors() -> None:
    promise, rules = policy().policy.targets["cloud"], policy().label_rules
    assert transform_for(promise, label("pii"), Task.CHAT) is Transform.PSEUDONYMIZE
    assert transform_for(promise, label("pii"), Task.TENSOR) is Transform.NONE
    assert label_as_sent(promise, label("pii"), rules, Task.TENSOR) == label("pii")


@pytest.mark.parametrize(
    ("path", "spoken"),
    [
        ("messages[0].content", True),
        ("messages[12].content[3].text", True),
        ("messages[0].reasoning_content", True),
        ("messages[0].tool_calls[1].function.arguments", True),
        ("messages[0].function_call.arguments", True),
        ("messages[0].tool_calls[1].function.name", False),
        ("messages[0].content[0].image_url.url", False),
        ("messages[0].content[0].text.text", False),
        ("messages[0].name", False),
        ("metadata.messages[0].content", False),
        ("metadata#keys", False),
        ("tools[0].function.description", False),
        ("user", False),
    ],
)
def test_a_token_may_stand_only_in_what_is_said(path: str, spoken: bool) -> None:
    assert is_spoken(path) is spoken
    scan = ScanResult((Finding("email", "pii", path, 0, 1, SCANNER),))
    nothing = Component()
    found = label_of(policy().label_rules, declared=nothing, key=nothing, taint=nothing, scan=scan)
    assert found.fixed == (frozenset() if spoken else {"pii"})

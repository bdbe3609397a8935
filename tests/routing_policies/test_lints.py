from __future__ import annotations

from types import SimpleNamespace

import pytest

from routing_policies.lab.lints import lint
from routing_policies.policy.loader import builtin_names, read_policy


def warnings(make: SimpleNamespace, more: str) -> list[str]:
    return [str(warning) for warning in lint(make.policy(more))]


@pytest.mark.parametrize("name", builtin_names())
def test_a_built_in_policy_has_no_warnings(name: str) -> None:
    assert lint(read_policy(name)) == []


def test_a_warning_has_file_line_and_column(make: SimpleNamespace) -> None:
    found = warnings(make, "constraints:\n  - {id: none, when: label.level > RESTRICTED, deny: [cloud]}\n")
    assert found == ["test.yaml:7:5: `none` never fires: no request fulfils its `when`"]


@pytest.mark.parametrize(
    "when",
    [
        "size.tokens > 500 && size.tokens < 501",
        'tenant.id == "a" && tenant.id == "b"',
        'tenant.id.startsWith("a") && !tenant.id.contains("a")',
        "label.tags.size() > 0 && label.tags.all(t, t == 'phi') && !('phi' in label.tags)",
        "deadline.total_ms < 100 && deadline.ttft_ms > 100 && deadline.ttft_ms < 200",
        'request.task == "chat" && request.task != "chat"',
    ],
)
def test_a_rule_that_no_request_fulfils_never_fires(when: str, make: SimpleNamespace) -> None:
    for section in (f'constraints:\n  - {{id: a, when: "{when.replace(chr(34), chr(39))}", deny: [cloud]}}\n',):
        (found,) = warnings(make, section)
        assert "`a` never fires" in found


def test_what_only_just_fires_has_no_warning(make: SimpleNamespace) -> None:
    rule = "constraints:\n  - {id: a, when: size.tokens > 500 && size.tokens < 502, deny: [cloud]}\n"
    assert warnings(make, rule) == []


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            ["{id: a, when: size.tokens > 500, deny: [cloud]}", "{id: b, when: size.tokens > 900, deny: [cloud]}"],
            "`b` can never matter: it is shadowed by `a`",
        ),
        (
            ["{id: b, when: size.tokens > 900, deny: [cloud]}", "{id: a, when: size.tokens > 500, deny: [cloud]}"],
            "`b` can never matter: it is shadowed by `a`",
        ),
        (
            ["{id: a, when: request.tools, deny: [cloud]}", "{id: b, when: request.tools, deny: [cloud]}"],
            "`b` can never matter: it is shadowed by `a`",
        ),
        (
            ["{id: a, when: '\"phi\" in label.tags', deny: [cloud]}"],
            "`a` can never matter: clearance and tags already exclude every target that it would",
        ),
        (
            ["{id: a, when: request.tools, require: 'target.clearance >= PUBLIC'}"],
            "`a` can never matter: it excludes no target",
        ),
        (
            ["{id: a, when: request.tools, require: 'target.region == \"mars\"'}"],
            "`a` refuses every request it applies to: no target fulfils it",
        ),
        (
            ["{id: a, when: request.tools, deny: [cloud]}", "{id: b, when: request.stream, deny: [edge]}"],
            "`b` contradicts `a`: where both apply, they leave no target, though either alone does",
        ),
    ],
)
def test_a_rule_that_cannot_matter_or_leaves_nobody_is_told(
    rules: list[str], expected: str, make: SimpleNamespace
) -> None:
    found = warnings(make, "constraints:\n" + "".join(f"  - {rule}\n" for rule in rules))
    assert [warning.partition(": ")[2] for warning in found] == [expected]


def test_rules_that_never_apply_together_do_not_contradict(make: SimpleNamespace) -> None:
    rules = "constraints:\n  - {id: a, when: request.tools, deny: [cloud]}\n"
    assert warnings(make, rules + "  - {id: b, when: '!request.tools', deny: [edge]}\n") == []


def test_a_preference_for_a_target_that_is_never_eligible_there_is_told(make: SimpleNamespace) -> None:
    prefer = "prefer:\n  - {id: p, when: label.level >= CONFIDENTIAL, target: cloud, weight: 0.1}\n"
    assert "`p` can never matter: cloud may not answer where it fires" in warnings(make, prefer)[0]


def test_too_many_cells_are_told_and_not_passed_over(make: SimpleNamespace) -> None:
    policy = make.policy("constraints:\n  - {id: a, when: request.tools, deny: [cloud]}\n")
    assert "not all rules were looked at" in str(lint(policy, max_cells=0)[0])


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (
            "constraints: [{id: a, when: '\"phi_\" in label.tags', deny: [edge]}]",
            "`a` looks for the tag `phi_` (did you mean `phi`?)",
        ),
        (
            "constraints: [{id: a, when: 'label.tags.exists(t, t == \"secrets\")', deny: [edge]}]",
            "tag `secrets` (did you mean `secret`?)",
        ),
        (
            "constraints: [{id: a, when: '\"PHI\" in label.tags', deny: [edge]}]",
            "which no request can carry: tags are lower-case letters, digits, `_` and `-` (did you mean `phi`?)",
        ),
        (
            "invariants: [{id: i, when: '\"pciI\" in label.tags', require: 'target.kind == \"edge\"'}]",
            "`i` looks for the tag `pciI`, which no",
        ),
    ],
)
def test_a_tag_that_is_likely_misspelt_is_told_since_such_a_rule_guards_nothing(
    section: str, expected: str, make: SimpleNamespace
) -> None:
    assert any(expected in warning for warning in warnings(make, section + "\n"))


def test_tags_of_ones_own_have_no_warning(make: SimpleNamespace) -> None:
    for tag in ("phi", "domain", "project-x", "hr", "pid"):
        found = warnings(make, f"constraints: [{{id: a, when: '\"{tag}\" in label.tags', deny: [edge]}}]\n")
        assert not any("the tag" in warning for warning in found)

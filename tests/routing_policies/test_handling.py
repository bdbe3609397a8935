"""What two policies do otherwise to the same data, though the same targets may answer."""

from __future__ import annotations

import pytest

from routing_policies.lab.diff import Direction, compare
from routing_policies.lab.handling import HandlingChange, compare_handling
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.loader import builtin_names, load_policy, read_text

BUDGET_RULE = "constraints: [{id: late, when: 'deadline.total_ms < 300', deny: [cloud]}]\n"
CAP_RULE = "constraints: [{id: much, when: 'request.output_cap > 1000', deny: [cloud]}]\n"


def policy(more: str = "", *, cloud: str = "kind: cloud, tags_allowed: [pii]", defaults: str = "") -> LoadedPolicy:
    text = (
        f"apiVersion: tidegate/v1\nname: site\ndefaults: {{class: public{defaults}}}\ntargets:\n"
        f"  edge: {{kind: edge, clearance: restricted}}\n  cloud: {{clearance: confidential, {cloud}}}\n{more}"
    )
    return read_text(text, "site")


PSEUDONYMS = policy(cloud="kind: cloud, tags_allowed: [pii], pseudonymize: [pii]")
MASKED = policy("answers: {scan: mask}\n")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (PSEUDONYMS, policy(), "pii that cloud is sent is what was found, and was tokens"),
        (
            MASKED,
            policy("answers: {scan: mask, tags: [pii, phi, pci]}\n"),
            "`answers.scan` of secret is `off`, and was `mask`",
        ),
        (
            policy("answers: {scan: stop, tags: [pii]}\n"),
            policy("answers: {scan: label, tags: [pii]}\n"),
            "`answers.scan` of pii is `label`, and was `stop`",
        ),
        (policy(), policy(cloud="kind: edge, tags_allowed: [pii]"), "`kind` of cloud is `edge`, and was `cloud`"),
        (policy(), policy("findings: {pci: internal}\n"), "a finding of pci is internal, and was restricted"),
    ],
)
def test_data_that_is_protected_less_is_looser_and_the_way_back_is_stricter(
    before: LoadedPolicy, after: LoadedPolicy, words: str
) -> None:
    assert compare(before, after) == [], "the same targets may answer"
    assert [(each.direction, each.in_words()) for each in compare_handling(before, after)] == [
        (Direction.LOOSER, words)
    ]
    assert [each.direction for each in compare_handling(after, before)] == [Direction.STRICTER]


@pytest.mark.parametrize(
    ("rule", "defaults", "what"),
    [
        (BUDGET_RULE, ", total_ms: 200", "total_ms"),
        (BUDGET_RULE, ", ttft_ms: 200", "ttft_ms"),
        (CAP_RULE, ", max_tokens: 2000", "max_tokens"),
    ],
)
def test_a_default_that_a_hard_rule_reads_counts_as_looser_whichever_way_it_changes(
    rule: str, defaults: str, what: str
) -> None:
    with_it, without = policy(rule, defaults=defaults), policy(rule)
    for before, after in ((with_it, without), (without, with_it)):
        found = compare_handling(before, after)
        assert [(each.direction, each.what) for each in found] == [
            (Direction.LOOSER, f"`defaults.{what}`, which rules read,")
        ]


def test_a_default_that_no_hard_rule_reads_is_no_matter() -> None:
    assert compare_handling(policy(defaults=", total_ms: 200"), policy(defaults=", late: refuse")) == []


def test_tokens_for_a_tag_that_a_target_may_not_be_sent_at_all_are_not_missed() -> None:
    before = policy(cloud="kind: cloud, tags_allowed: [pii], pseudonymize: [phi]")
    assert compare_handling(before, policy()) == []


@pytest.mark.parametrize("name", builtin_names())
def test_no_policy_handles_data_otherwise_than_itself(name: str) -> None:
    assert compare_handling(load_policy(name), load_policy(name)) == []


def test_a_lower_class_of_something_is_looser() -> None:
    found = compare_handling(load_policy("private-first"), load_policy("balanced"))
    what = "a request of which nobody says anything"
    assert found == [HandlingChange(Direction.LOOSER, what, "confidential", "public")]

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_protocol.errors import InvalidHeader
from inference_protocol.text_parts import UninspectableCause
from routing_policies.signals.label import (
    NOTHING,
    Component,
    DataClass,
    Finding,
    Label,
    LabelRules,
    ScanResult,
    label_of,
    parse_label_headers,
)

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = DataClass
COMPONENTS = ("declared", "key", "taint", "findings", "uninspected")
levels = st.sampled_from(DataClass)
components = st.builds(
    Component, st.none() | levels, st.frozensets(st.sampled_from(["pii", "phi", "pci", "secret", "export"]), max_size=3)
)
labels = st.builds(Label, default=levels, **dict.fromkeys(COMPONENTS, components))


def finding(kind: str, tag: str) -> Finding:
    return Finding(kind, tag, "messages[0].content", 0, 1, "test")


def label(rules: LabelRules, scan: ScanResult = ScanResult(), **components: Component) -> Label:  # noqa: B008  # frozen
    given = {"declared": NOTHING, "key": NOTHING, "taint": NOTHING} | components
    return label_of(rules, scan=scan, **given)


@given(labels, st.sampled_from(COMPONENTS), components)
def test_adding_what_a_source_says_never_lowers_a_label(before: Label, name: str, more: Component) -> None:
    old = getattr(before, name)
    level = max((x.level for x in (old, more) if x.level is not None), default=None)
    after = replace(before, **{name: Component(level, old.tags | more.tags)})
    floor = before.level if any(c.level is not None for c in before.components) else PUBLIC
    assert after.level >= floor
    assert after.level >= (more.level or PUBLIC)
    assert after.tags >= before.tags | more.tags


@given(labels)
def test_the_default_holds_only_where_nobody_says_anything(found: Label) -> None:
    said = [component.level for component in found.components if component.level is not None]
    assert found.level == (max(said) if said else found.default)


@pytest.mark.parametrize("word", ["restricted", "Restricted", " RESTRICTED "])
def test_a_declared_class_is_read(word: str) -> None:
    assert parse_label_headers({"x-data-class": word}) == Component(RESTRICTED)


def test_declared_tags_are_read() -> None:
    assert parse_label_headers({"x-data-tags": "phi, export_eu,minor-1"}).tags == {"phi", "export_eu", "minor-1"}


def test_without_label_headers_nothing_is_declared() -> None:
    assert parse_label_headers({"content-type": "application/json"}) == NOTHING


@pytest.mark.parametrize("word", ["", "secret", "publicly", "public, restricted", "0", "none"])
def test_an_unknown_class_is_refused_with_the_allowed_ones(word: str) -> None:
    with pytest.raises(InvalidHeader, match="public, internal, confidential, restricted") as caught:
        parse_label_headers({"x-data-class": word})
    assert caught.value.param == "x-data-class"


@pytest.mark.parametrize("tags", ["", "PHI", "a b", "a,,b", "ü", "x" * 33, "phi;pci", ",".join(["a"] * 33)])
def test_a_tag_that_cannot_be_one_is_refused_by_the_headers_name(tags: str) -> None:
    with pytest.raises(InvalidHeader, match="x-data-tags") as caught:
        parse_label_headers({"x-data-tags": tags})
    assert caught.value.param == "x-data-tags"


def test_a_caller_cannot_lower_what_its_key_says() -> None:
    found = label(LabelRules(PUBLIC), declared=Component(PUBLIC), key=Component(RESTRICTED))
    assert found.level is RESTRICTED


def test_a_declared_public_does_not_lower_findings() -> None:
    scan = ScanResult((finding("card", "pci"),))
    rules = LabelRules(PUBLIC, findings={"pci": CONFIDENTIAL})
    assert label(rules, scan, declared=Component(PUBLIC)).level is CONFIDENTIAL


def test_findings_raise_by_the_highest_class_of_their_tags_and_are_counted_by_kind() -> None:
    rules = LabelRules(PUBLIC, findings={"pii": INTERNAL, "secret": RESTRICTED})
    scan = ScanResult((finding("email", "pii"), finding("email", "pii"), finding("jwt", "secret")))
    found = label(rules, scan)
    assert found.findings == Component(RESTRICTED, frozenset({"pii", "secret"}))
    assert found.counts == {"email": 2, "jwt": 1}


def test_a_tag_that_no_rule_maps_is_confidential() -> None:
    assert label(LabelRules(PUBLIC), ScanResult((finding("x", "novel"),))).level is CONFIDENTIAL


@pytest.mark.parametrize("cause", list(UninspectableCause))
def test_a_cause_that_no_rule_lists_is_confidential_and_a_failed_detector_restricted(cause: UninspectableCause) -> None:
    found = label(LabelRules(PUBLIC), ScanResult(causes=frozenset({cause})))
    assert found.level is (RESTRICTED if cause is UninspectableCause.DETECTOR_ERROR else CONFIDENTIAL)
    assert found.causes == {cause}


@pytest.mark.parametrize("cause", list(UninspectableCause))
def test_the_policy_may_say_otherwise_of_any_cause(cause: UninspectableCause) -> None:
    rules = LabelRules(PUBLIC, uninspected={cause: INTERNAL})
    assert label(rules, ScanResult(causes=frozenset({cause}))).level is INTERNAL


def test_of_several_causes_the_highest_class_holds() -> None:
    rules = LabelRules(PUBLIC, uninspected={UninspectableCause.IMAGE: INTERNAL})
    scan = ScanResult(causes=frozenset({UninspectableCause.IMAGE, UninspectableCause.BLOB}))
    assert label(rules, scan).level is CONFIDENTIAL


def test_a_clean_unlabelled_request_has_the_policys_default() -> None:
    assert label(LabelRules(INTERNAL)).level is INTERNAL
    assert label(LabelRules(INTERNAL)).tags == frozenset()


def test_class_words_round_trip() -> None:
    assert [DataClass.from_word(level.word) for level in DataClass] == list(DataClass)


def test_a_domain_is_counted_and_raises_a_request_only_where_the_policy_gives_it_a_class() -> None:
    scan = ScanResult((finding("domain", "domain"),))
    noted = label(LabelRules(PUBLIC), scan)
    assert (noted.level, noted.tags, noted.findings, dict(noted.counts)) == (
        PUBLIC,
        frozenset(),
        NOTHING,
        {"domain": 1},
    )
    raised = label(LabelRules(PUBLIC, findings={"domain": INTERNAL}), scan)
    assert (raised.level, raised.tags) == (INTERNAL, {"domain"})

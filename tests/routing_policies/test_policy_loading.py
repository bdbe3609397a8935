from __future__ import annotations

from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest

from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loader import builtin_names, load_policy, load_text, read_text
from routing_policies.signals.label import DataClass

TARGETS = """\
apiVersion: tidegate/v1
name: test
targets:
  edge: {kind: edge, clearance: restricted}
  cloud: {kind: cloud, clearance: internal}
"""


@pytest.mark.parametrize(
    ("more", "line", "column", "words"),
    [
        ("wieghts: {deadline: 1}\n", 6, 1, ["unknown field", "did you mean `weights`?", "allowed: apiVersion"]),
        ("defaults: {late: finnish}\n", 6, 18, ["`finnish`", "did you mean `finish`?", "finish, truncate, refuse"]),
        ("defaults:\n  class: secret\n", 7, 10, ["not `secret`", "allowed: public, internal, confidential"]),
        ("defaults: {class: Internal}\n", 6, 19, ["not `Internal`", "did you mean `internal`?"]),
        ("findings: {pii: confidental}\n", 6, 17, ["`findings.pii`: not `confidental` (did you mean `confidential`?)"]),
        ("defaults: {max_tokens: '512'}\n", 6, 24, ["integer"]),
        ("defaults: {max_tokens: 0}\n", 6, 24, ["greater than or equal to 1"]),
        ("defaults: {total_ms: -5}\n", 6, 22, ["greater than 0"]),
        ("uninspected: {imagee: internal}\n", 6, 15, ["did you mean `image`?"]),
        ("findings: {pif: restricted}\n", 6, 12, ["unknown field", "did you mean `pii`?"]),
        ("weights: {deadline: 0}\n", 6, 10, ["at least one weight above 0"]),
        ("weights: {deadline: .inf}\n", 6, 21, ["number"]),
        ("on: {no_eligible: allow}\n", 6, 19, ["`allow`", "refuse"]),
        ("constraints:\n  - {id: a}\n", 7, 5, ["exactly one of `deny` and `require`"]),
        ("constraints:\n  - {id: a, deny: []}\n", 7, 19, ["`constraints.0.deny`: needs at least 1"]),
        ("constraints:\n  - {id: a, deny: cloud}\n", 7, 19, ["must be a list, not `cloud`; write `[cloud]`"]),
        ("constraints:\n  - {id: a, when: true, deny: [cloud]}\n", 7, 19, ["must be text, not true; put it in quotes"]),
        ("constraints:\n  - {id: a, when: null, deny: [cloud]}\n", 7, 19, ["must be text, not null"]),
        ("constraints:\n", 6, 13, ["must be a list, not null"]),
        ("defaults: {class: a\x00b}\n", 6, 20, ["the character U+0000 is not allowed"]),
        ("constraints:\n  - {id: a, deny: [clod]}\n", 7, 20, ["no target `clod`", "did you mean `cloud`?"]),
        ("constraints:\n  - {id: a, deny: [cloud], whne: 'true'}\n", 7, 28, ["did you mean `when`?"]),
        ("prefer:\n  - {id: a, target: edgy, weight: 1}\n", 7, 21, ["no target `edgy`"]),
        ("prefer:\n  - {id: a, target: edge, weight: 7}\n", 7, 35, ["less than or equal to 1"]),
        ("prefer:\n  - {id: a, target: edge}\n", 7, 5, ["weight", "missing"]),
        (
            "constraints:\n  - {id: a, deny: [cloud]}\ninvariants:\n  - {id: a, require: 'true'}\n",
            9,
            10,
            ["`a` is used twice"],
        ),
        ("tests:\n  - {name: t, expect: {rule: nowhere}}\n", 7, 30, ["no rule `nowhere`"]),
        ("name: again\n", 6, 1, ["`name` stands here twice"]),
        ("findings: {pii: internal, pii: restricted}\n", 6, 27, ["`pii` stands here twice"]),
        ("defaults: &d {class: public}\n", 6, 11, ["anchors and aliases"]),
        ("defaults: !!python/name:os.system {}\n", 6, 11, ["tag"]),
        ("? [a]\n: b\n", 6, 3, ["a key must be text"]),
        ("weights: {deadline: 1\n", 7, 1, ["not YAML"]),
        ("---\nname: two\n", 6, 1, ["single document"]),
    ],
)
def test_a_wrong_document_is_refused_with_its_place_and_how_to_mend_it(
    more: str, line: int, column: int, words: list[str]
) -> None:
    with pytest.raises(PolicyError) as caught:
        load_text(TARGETS + more, "site.yaml")
    for word in words:
        assert word in caught.value.message
    assert (caught.value.file, caught.value.line, caught.value.column) == ("site.yaml", line, column)
    assert str(caught.value).startswith(f"site.yaml:{line}:{column}: ")


@pytest.mark.parametrize(
    ("when", "offset", "words"),
    [
        ("label.levle >= INTERNAL", 0, ["no `label.levle`", "did you mean `label.level`?"]),
        ("lable.level >= INTERNAL", 0, ["no `lable.level`", "did you mean `label.level`?"]),
        ("label.level >= RESTRICED", 15, ["did you mean `RESTRICTED`?"]),
        ('label.level == "restricted"', 12, ["a class is compared with text", "did you mean `RESTRICTED`?"]),
        ("label.level >= 2", 12, ["a class is compared with a number", "PUBLIC, INTERNAL"]),
        ("label.level", 0, ["must be true or false", "a class"]),
        ('"Submit order"', 0, ["must be true or false"]),
        ("label.tags", 0, ["must be true or false"]),
        ('target.kind == "edge"', 0, ["`when` sees the request only"]),
        ('"imagee" in label.causes', 0, ["did you mean `image`?"]),
        ('request.task == "caht"', 16, ["did you mean `chat`?"]),
        ("size(label.tags) > 0", 0, ["no functions"]),
        ("tenant.id.size() > 3", 10, ["counts bytes"]),
        ('tenant.id.matches("^a+$")', 10, ["text has no `matches`"]),
        ("label.tags.exists(t, label.tags.all(u, u == t))", 32, ["may not hold another one"]),
        ("label.tags.map(t, t)", 11, ["a list has no `map`"]),
        ("label.tags.exists(label, true)", 18, ["already means something"]),
        ("label.tags.exists(label__level, true)", 18, ["already means something"]),
        ("size.tokens > 1.5", 12, ["whole number"]),
        ("size.tokens > size.body_bytes", 12, ["whole number"]),
        ("deadline.total_ms - 5 > 3", 18, ["not part of the language"]),
        ("request.stream > false", 15, ["compares numbers and classes"]),
        ("request.stream && 1", 18, ["joins what is true or false"]),
        ("!size.body_bytes", 1, ["joins what is true or false"]),
        ("1 < 2 < 3", 6, ["cannot be chained"]),
        ('"a" in "abc"', 7, ["looks into a list"]),
        ('tenant.id in ["a", 1]', 19, ["begins with text"]),
        ("label.tags == label.tags", 11, ["lists are not compared"]),
        ("tenant.id in []", 13, ["empty list"]),
        ("label.level >=", 14, ["ends too early"]),
        ("label.level >= INTERNAL )", 24, ["cannot stand here"]),
        ("(" * 30 + "true" + ")" * 30, 24, ["nested more than"]),
        ("!" * 30 + "true", 24, ["nested more than"]),
        ("true || " * 200 + "true", 0, ["1000 characters"]),
        ("size.body_bytes > 99999999999999999999", 0, ["not CEL"]),
    ],
)
def test_a_wrong_condition_is_refused_at_its_character(when: str, offset: int, words: list[str]) -> None:
    text = f"{TARGETS}constraints:\n  - id: rule\n    when: '{when}'\n    deny: [cloud]\n"
    with pytest.raises(PolicyError) as caught:
        load_text(text, "site.yaml")
    for word in words:
        assert word in caught.value.message
    assert (caught.value.line, caught.value.column) == (8, 12 + offset)


def test_a_condition_over_several_lines_is_located_at_its_beginning() -> None:
    rule = "constraints:\n  - id: rule\n    deny: [cloud]\n    when: >\n      label.level >= INTERNAL\n      && lable\n"
    with pytest.raises(PolicyError, match="no `lable`") as caught:
        load_text(TARGETS + rule, "site.yaml")
    assert caught.value.line == 9


def test_a_target_name_that_the_policy_lacks_is_refused_in_a_condition() -> None:
    with pytest.raises(PolicyError, match=r"did you mean `edge`\?"):
        load_text(TARGETS + "invariants:\n  - {id: a, require: 'target.name != \"egde\"'}\n", "site.yaml")


def test_prices_in_two_currencies_are_refused(make: SimpleNamespace) -> None:
    text = TARGETS.replace("clearance: restricted", "clearance: restricted, price: {input: 1, output: 1}").replace(
        "clearance: internal", "clearance: internal, price: {input: 1, output: 1, currency: EUR}"
    )
    with pytest.raises(PolicyError, match="one currency") as caught:
        load_text(text, "site.yaml")
    assert caught.value.line == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a policy is a mapping"),
        ("- a\n", "a policy is a mapping"),
        ("a: b: c\n", "not YAML"),
        ("\0", "the character U"),
        (TARGETS + "".join(f"  t{n}: {{kind: cloud, clearance: public}}\n" for n in range(63)), "may have 64 at most"),
        ("a: " + "[" * 5000, "nested more than"),
        ("a: 1" + " " * (256 << 10), "larger than"),
    ],
)
def test_what_is_no_policy_at_all_is_refused(text: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        load_text(text, "site.yaml")


def test_plain_words_of_old_yaml_are_text_and_numbers_are_decimal() -> None:
    loaded = load_text(TARGETS.replace("clearance: internal", "clearance: internal, region: no"), "site.yaml")
    assert loaded.policy.targets["cloud"].region == "no"
    with pytest.raises(PolicyError, match="integer"):
        load_text(TARGETS + "defaults: {max_tokens: 0512}\n", "site.yaml")


def test_a_file_is_read_and_its_absence_or_encoding_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(TARGETS, encoding="utf-8")
    assert load_policy(file).policy.name == "test"
    assert load_policy(file).origin == str(file)
    file.write_bytes(b"name: a\nb: \xff\n")
    with pytest.raises(PolicyError, match="not UTF-8") as caught:
        load_policy(file)
    assert caught.value.line == 2
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        load_policy(tmp_path / "none.yaml")
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy(tmp_path)


def test_an_unknown_built_in_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(PolicyError, match=r"did you mean `balanced`\?\); allowed: balanced, cost-first,"):
        load_policy("balancd")
    every = "balanced cost-first eu-residency healthcare latency-first offline-first private-first"
    assert builtin_names() == every.split()


def test_the_digest_depends_on_what_the_policy_says_and_not_on_how_it_is_written() -> None:
    spelled_out = TARGETS + "defaults:\n  class: confidential  # as it is without this line\n"
    assert load_text(TARGETS, "a").digest == load_text(spelled_out, "b").digest
    assert load_text(TARGETS, "a").digest != load_text(TARGETS.replace("internal", "public"), "a").digest
    first, second = TARGETS.splitlines()[3:5]
    swapped = TARGETS.replace(f"{first}\n{second}", f"{second}\n{first}")
    assert load_text(TARGETS, "a").digest != load_text(swapped, "a").digest, "the order of targets breaks ties"


def test_label_rules_and_budgets_come_from_the_policy_and_a_partial_table_keeps_the_other_defaults() -> None:
    loaded = load_text(
        TARGETS
        + "defaults: {class: internal, ttft_ms: 2000}\nfindings: {pii: internal}\nuninspected: {image: public}\n",
        "site.yaml",
    )
    assert loaded.label_rules.default is DataClass.INTERNAL
    assert loaded.label_rules.of_tag("pii") is DataClass.INTERNAL
    assert loaded.label_rules.of_tag("secret") is DataClass.RESTRICTED
    assert loaded.label_rules.uninspected == {"image": DataClass.PUBLIC}
    assert loaded.deadline_defaults.ttft_ms == 2000
    assert loaded.deadline_defaults.total_ms is None


@pytest.mark.parametrize("name", builtin_names())
def test_a_shipped_policy_that_was_cut_off_anywhere_is_refused(name: str) -> None:
    text = (resources.files("routing_policies.builtin") / f"{name}.yaml").read_text(encoding="utf-8")
    whole = text.rstrip("\n")
    at_lines = [index for index, character in enumerate(whole) if character == "\n"]

    for end in {*at_lines, *range(len(whole) - 40, len(whole)), *range(0, len(whole), 97)}:
        with pytest.raises(PolicyError):
            read_text(whole[:end], name)


def test_a_document_with_a_beginning_and_no_end_was_cut_off() -> None:
    document = "---\napiVersion: tidegate/v1\nname: a\ntargets: {edge: {kind: edge, clearance: restricted}}\n"

    with pytest.raises(PolicyError, match=r"does not end with `\.\.\.`"):
        load_text(document, "p.yaml")
    assert load_text(document + "...", "p.yaml").policy.name == "a"

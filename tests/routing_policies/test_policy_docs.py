"""docs/policies.md is read as data: its tables are those of the code, and its example is decided."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from inference_protocol import headers
from routing_policies.decide import decide
from routing_policies.policy.loader import builtin_names, load_text, read_policy
from routing_policies.policy.model import Policy
from routing_policies.policy.names import REQUEST_NAMES, SOFT, STATE_NAMES, TARGET_NAMES
from routing_policies.refusal import refusal
from routing_policies.signals.hints import EffectiveType, Network, parse_hints
from routing_policies.signals.label import DataClass
from routing_policies.snapshot import Connectivity, Health
from routing_policies.verdict import ExclusionKind, Reason

DOC = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Every table row of a section, as cells."""
    section = re.split(r"^## ", DOC, flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(heading))
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def fields(model: Any, path: str = "") -> list[str]:
    """The dotted paths of a model's leaves; `*` stands for a key or an index."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        prefix = f"{path}." if path else ""
        return [
            leaf
            for name, field in model.model_fields.items()
            for leaf in fields(field.annotation, f"{prefix}{field.alias or name}")
        ]
    inner = [arg for arg in get_args(model) if isinstance(arg, type) and issubclass(arg, BaseModel)]
    if not inner:
        return [path]
    return fields(inner[0], path if type(None) in get_args(model) else f"{path}.*")


def test_every_field_of_the_document_is_listed_and_no_other() -> None:
    listed = [row[0].strip("`") for row in rows("The document")[2:]]
    assert listed == fields(Policy)


def test_every_name_of_a_condition_is_listed_with_its_type_and_meaning() -> None:
    known = (*REQUEST_NAMES, *TARGET_NAMES, *STATE_NAMES)
    expected = {name.name: [f"`{name.name}`", name.type.word, name.meaning] for name in known}
    assert rows("Conditions")[2:] == [row for name, row in expected.items() if name not in SOFT]
    assert rows("Hints and state")[2:][: len(SOFT)] == [row for name, row in expected.items() if name in SOFT]


def test_every_word_of_a_hint_and_every_state_of_connectivity_is_listed() -> None:
    listed = rows("Hints and state")
    for name, words in ((headers.CLIENT_NETWORK, Network), (headers.EFFECTIVE_TYPE, EffectiveType)):
        value = next(row[1] for row in listed if row[0] == f"`{name}`")
        assert all(f"`{word}`" in value for word in words if word != "unknown")
    assert [row[0] for row in listed if row[0].strip("`") in set(Connectivity)] == [
        "`cold`",
        *(f"`{word}`" for word in ("online", "degraded", "metered", "captive", "offline")),
    ]


def test_the_examples_of_hints_and_of_preferences_can_be_read() -> None:
    fields = {row[0].strip("`"): row[2].strip("`") for row in rows("Hints and state") if row[0].startswith("`x-")}
    assert set(fields) == {headers.CLIENT_NETWORK, headers.CLIENT_BATTERY}
    assert parse_hints(fields).unreadable == ()
    section = DOC.split("## Hints and state")[1].split("## Scores")[0]
    targets = "targets: {edge: {kind: edge, clearance: restricted}, cloud: {kind: cloud, clearance: internal}}\n"
    found = load_text(
        "apiVersion: tidegate/v1\nname: docs\n" + targets + section.split("```yaml\n")[1].split("```")[0], "docs"
    )
    assert len(found.preferences) == 3


def test_reasons_of_verdicts_and_of_exclusions_are_listed_in_order() -> None:
    listed = [row[0].strip("`") for row in rows("How a request is decided")[2:]]
    assert listed == [kind.value for kind in ExclusionKind]
    words = [row[0].strip("`").split(":")[0] for row in rows("Scores, terms and the choice")]
    assert {reason.value for reason in Reason} <= set(words)


def test_every_built_in_policy_is_described() -> None:
    for name in builtin_names():
        assert f"- `{name}`: " in DOC
        (row,) = (row for row in rows("Built-in policies") if row[0] == f"`{name}`")
        assert row[1] == f"`{read_policy(name).policy.defaults.data_class.word}`"


def test_the_errors_of_a_refusal_are_as_listed(make: SimpleNamespace) -> None:
    listed = {row[1].strip("`"): int(row[2]) for row in rows("When nobody may answer")[2:]}
    down = make.snapshot(make.target("edge", Health.DOWN), make.target("cloud"))
    policy = make.policy()
    error = refusal(decide(policy, make.view(DataClass.RESTRICTED), down), policy)
    assert listed[error.code] == error.http_status
    assert len(listed) == 6


@pytest.fixture
def example(make: SimpleNamespace) -> SimpleNamespace:
    """The worked example as the text states it."""
    section = DOC.split("## A worked example")[1].split("## When nobody")[0]
    source = section.split("```yaml\n")[1].split("```")[0]
    snapshot = make.snapshot(
        make.target("edge", window=2000, prediction=make.prediction(800, spread=0.2231, output_tokens=100)),
        make.target("cloud", window=8000, prediction=make.prediction(500, spread=0.3466, output_tokens=100)),
    )
    view = make.view(DataClass.INTERNAL, tokens=600, total_ms=1000, output_cap=512)
    policy = load_text(source, "docs/policies.md")
    return SimpleNamespace(policy=policy, verdict=decide(policy, view, snapshot))


def test_the_worked_example_can_be_followed_by_hand(example: SimpleNamespace) -> None:
    scores, terms = example.verdict.scores, example.verdict.terms
    edge, cloud = terms["edge"], terms["cloud"]
    # The request: the faster target needs half of the budget; internal is 1 of 3; the edge needs 0.8 of the budget.
    assert scores.latency == pytest.approx(500 / 1000)
    assert scores.privacy == pytest.approx(1 / 3)
    assert scores.size == pytest.approx(max(600 / 2000, 800 / 1000))
    # P(inside budget), from any table of the normal distribution: one and two standard deviations.
    assert edge.deadline == pytest.approx(0.8413, abs=1e-4)
    assert cloud.deadline == pytest.approx(0.9772, abs=1e-4)
    assert (edge.exposure, cloud.exposure) == (1.0, 1 - 1 / 2)
    assert (edge.fit, cloud.fit) == (pytest.approx(1 - 0.8), pytest.approx(1 - 0.5))
    assert (edge.cost, cloud.cost) == (1.0, 0.0)
    assert (edge.quality, cloud.quality) == (0.6, 1.0)
    # The sum.
    assert edge.score == pytest.approx(0.4 * 0.8413 + 0.2 * 1 + 0.1 * 0.2 + 0.1 * 1 + 0.2 * 0.6, abs=1e-4)
    assert cloud.score == pytest.approx(0.4 * 0.9772 + 0.2 * 0.5 + 0.1 * 0.5 + 0.1 * 0 + 0.2 * 1 + 0.05, abs=1e-4)
    assert [found.target for found in example.verdict.eligible] == ["cloud", "edge"]
    assert example.verdict.reason == "preferred:long"


def test_the_worked_example_prints_the_numbers_of_the_code(example: SimpleNamespace) -> None:
    verdict, tables = example.verdict, rows("A worked example")
    for name in ("latency", "privacy", "size"):
        row = next(row for row in tables if row[0] == f"`{name}`")
        assert row[2] == f"{getattr(verdict.scores, name):.3f}"
    for term, weight in verdict.weights.items():
        row = next(row for row in tables if row[0] == f"`{term}`")
        assert row[1] == f"{weight:.1f}"
        for target, column in (("edge", 3), ("cloud", 5)):
            assert row[column] == f"{getattr(verdict.terms[target], term):.3f}"
            assert (row[column - 1] == "missing") == (term in verdict.terms[target].missing)
    for target in ("edge", "cloud"):
        assert [target, f"{verdict.terms[target].score:.3f}"] in tables

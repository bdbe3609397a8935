from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from inference_protocol.text_parts import UninspectableCause
from routing_policies.decide import decide
from routing_policies.explain import explain, in_words
from routing_policies.signals.label import Component, DataClass, Label
from routing_policies.snapshot import Health


def test_an_explanation_tells_label_deadline_size_scores_and_every_target(make: SimpleNamespace) -> None:
    policy = make.policy("weights: {deadline: 1, quality: 1}\nprefer:\n  - {id: here, target: edge, weight: 0.1}\n")
    label = Label(
        DataClass.PUBLIC,
        declared=Component(DataClass.INTERNAL),
        findings=Component(DataClass.CONFIDENTIAL, frozenset({"pii"})),
        counts={"email": 2},
        causes=frozenset({UninspectableCause.IMAGE}),
    )
    view = replace(make.view(tokens=300, total_ms=500), label=label)
    snapshot = make.snapshot(make.target("edge", window=1000, prediction=make.prediction(400)), make.target("cloud"))
    verdict = decide(policy, view, snapshot)
    found = explain(verdict, view, snapshot, policy)

    assert json.loads(json.dumps(found)) == found
    assert (found["target"], found["order"], found["reason"]) == ("edge", ["edge"], "only-eligible")
    assert found["label"]["class"] == "confidential"
    assert found["label"]["components"]["declared"] == {"class": "internal", "tags": []}
    assert found["label"]["components"]["findings"] == {"class": "confidential", "tags": ["pii"]}
    assert found["label"]["components"]["taint"] == {"class": None, "tags": []}
    assert found["label"]["counts"] == {"email": 2}
    assert found["label"]["uninspected_causes"] == ["image"]
    assert found["deadline"] == {"total_ms": pytest.approx(500), "ttft_ms": None}
    assert found["size"]["tokens"] == {"least": 300, "likely": 300, "most": 300}
    assert found["scores"] == {
        "latency": pytest.approx(0.8),
        "privacy": pytest.approx(2 / 3),
        "size": pytest.approx(0.8),
        "missing": [],
    }
    assert found["weights"]["quality"] == 0.5
    edge, cloud = found["targets"]["edge"], found["targets"]["cloud"]
    assert edge["eligible"] is True
    assert edge["prediction"]["total_ms"] == 400.0
    assert edge["preferred"] == 0.1
    assert edge["score"] == pytest.approx(0.5 * edge["terms"]["deadline"] + 0.5 * edge["terms"]["quality"] + 0.1)
    assert edge["missing"] == ["cost", "energy"]
    assert cloud["eligible"] is False
    assert cloud["excluded"]["kind"] == "clearance"
    assert found["rules"] == ["here"]
    assert found["policy"] == {"name": "two", "digest": policy.digest}


@pytest.mark.parametrize(
    ("more", "level", "edge_ms", "total_ms", "health", "sentence"),
    [
        (
            "weights: {quality: 1}\n",
            DataClass.PUBLIC,
            100,
            None,
            Health.UP,
            "`cloud` has the highest score, 1.000 against 0.600 for `edge`.",
        ),
        (
            "",
            DataClass.RESTRICTED,
            100,
            None,
            Health.UP,
            "`edge` is the only target that may answer; `cloud` is cleared for internal data at most.",
        ),
        (
            "weights: {quality: 1}\nprefer:\n  - {id: here, target: edge, weight: 0.5}\n",
            DataClass.PUBLIC,
            100,
            None,
            Health.UP,
            "The rule here lifts `edge` to the top, 1.100 against 1.000 for `cloud`.",
        ),
        (
            "weights: {deadline: 1}\n",
            DataClass.PUBLIC,
            100,
            None,
            Health.UP,
            "`edge` scores 1.000 as another does, and the policy names it first.",
        ),
        (
            "",
            DataClass.PUBLIC,
            100,
            50,
            Health.UP,
            "No target is likely to answer inside the budget, and `edge` is the likeliest with a probability of 0.01.",
        ),
        (
            "",
            DataClass.RESTRICTED,
            100,
            None,
            Health.DOWN,
            "No target may answer: `edge` is down, `cloud` is cleared for internal data at most.",
        ),
    ],
)
def test_one_sentence_says_why(
    more: str,
    level: DataClass,
    edge_ms: float,
    total_ms: float | None,
    health: Health,
    sentence: str,
    make: SimpleNamespace,
) -> None:
    snapshot = make.snapshot(
        make.target("edge", health, prediction=make.prediction(edge_ms)),
        make.target("cloud", prediction=make.prediction(5000)),
    )
    assert in_words(decide(make.policy(more), make.view(level, total_ms=total_ms), snapshot)) == sentence


def test_an_explanation_of_a_refusal_has_no_target(make: SimpleNamespace) -> None:
    policy, view = make.policy(), make.view(DataClass.RESTRICTED)
    snapshot = make.snapshot(make.target("edge", Health.DOWN), make.target("cloud"))
    found = explain(decide(policy, view, snapshot), view, snapshot, policy)
    assert (found["target"], found["order"], found["reason"]) == (None, [], "none-eligible")
    assert found["targets"]["edge"]["excluded"] == {"kind": "down", "rule": None, "detail": "is down"}

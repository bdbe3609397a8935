"""What Prometheus would say of the rules, and whether what they name is what the gateway measures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from deploy.tests.measured import labels_by_metric
from deploy.tests.programs import run

FOLDER = Path("deploy/prometheus")
RULES = FOLDER / "tidegate.rules.yaml"
TESTS = sorted(FOLDER.glob("*.test.yaml"))
# What Prometheus itself adds to whatever it reads.
OF_PROMETHEUS = {"instance", "job"}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def cases() -> Iterator[dict[str, Any]]:
    for path in TESTS:
        for test in yaml.safe_load(path.read_text())["tests"]:
            yield from test["alert_rule_test"]


def test_the_rules_and_the_settings_of_prometheus_are_read() -> None:
    checked = run("promtool", "check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stderr
    # The key that it would show lies elsewhere than here.
    checked = run("promtool", "check", "config", "--syntax-only", str(FOLDER / "prometheus.yaml"))
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_alerts_fire_when_they_should_and_no_earlier(path: Path) -> None:
    done = run("promtool", "test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_shown_firing_and_silent() -> None:
    named = {alert["alert"] for alert in alerts()}
    assert {case["alertname"] for case in cases() if case["exp_alerts"]} == named
    assert {case["alertname"] for case in cases() if not case["exp_alerts"]} == named


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_asks_for_what_is_measured(rule: dict[str, Any]) -> None:
    recorded = {each["record"]: frozenset[str]() for each in rules() if "record" in each}
    known = labels_by_metric() | recorded | {"up": frozenset()}
    for metric, labels in asked_for(rule["expr"]):
        assert metric in known
        assert labels <= known[metric] | OF_PROMETHEUS, metric


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_the_page_says_what_to_do_about_an_alert(alert: dict[str, Any]) -> None:
    page = Path("docs/watching.md").read_text(encoding="utf-8")
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", page, re.M)}
    assert alert["annotations"]["runbook_url"].partition("#")[2] in headings


def test_the_page_tells_of_no_alert_that_is_not_there() -> None:
    page = Path("docs/watching.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (\w+)$", page, re.M) == [alert["alert"] for alert in alerts()]


def test_the_one_alert_that_waits_for_nothing_is_about_restricted_data() -> None:
    [leak] = [alert for alert in alerts() if alert["alert"] == "TidegateRestrictedSentToCloud"]
    assert leak["labels"]["severity"] == "page"
    assert "for" not in leak


def asked_for(expression: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each metric of an expression with the labels that it is asked by."""
    found: list[tuple[str, frozenset[str]]] = []

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            matchers = {each.name for each in node.matchers.matchers}
            found.append((node.name, frozenset(matchers)))
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    grouped = frozenset(
        name.strip() for some in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for name in some.split(",")
    )
    yield from ((name, labels | grouped) for name, labels in found)

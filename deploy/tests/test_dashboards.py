"""Whether every picture of the dashboards asks for what is measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from deploy.grafana import dashboards
from deploy.tests.measured import labels_by_metric
from deploy.tests.test_prometheus import OF_PROMETHEUS, asked_for, rules

# What Grafana puts in before it asks.
INTERVAL, INSTANCES = "$__rate_interval", "$instance"


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in dashboards.DASHBOARDS:
        yield from ((name, panel) for panel in json.loads((dashboards.FOLDER / f"{name}.json").read_text())["panels"])


def family(metric: str) -> str:
    return metric.removesuffix("_sum").removesuffix("_count").removesuffix("_bucket")


def queries() -> list[tuple[str, str]]:
    return [
        (f"{name}: {panel['title']}", target["expr"].replace(INTERVAL, "5m").replace(INSTANCES, ".*"))
        for name, panel in panels()
        for target in panel["targets"]
    ]


@pytest.mark.parametrize("name", dashboards.DASHBOARDS)
def test_the_files_are_what_the_module_writes(name: str) -> None:
    assert (dashboards.FOLDER / f"{name}.json").read_text() == dashboards.written(name)


@pytest.mark.parametrize(("panel", "query"), queries(), ids=[panel for panel, _ in queries()])
def test_a_query_is_prometheuss_and_asks_for_what_is_measured(panel: str, query: str) -> None:
    promql_parser.parse(query)
    known = labels_by_metric() | {rule["record"]: frozenset[str]() for rule in rules() if "record" in rule}
    asked = list(asked_for(query))
    assert asked
    for metric, labels in asked:
        assert metric in known
        assert labels - {"le"} <= known[metric] | OF_PROMETHEUS, metric


def test_what_a_line_is_called_names_labels_of_its_query() -> None:
    for _, panel in panels():
        for target in panel["targets"]:
            for label in (piece.partition("}}")[0] for piece in target["legendFormat"].split("{{")[1:]):
                assert label in target["expr"], panel["title"]


def test_every_metric_of_state_and_requests_is_to_be_seen_somewhere() -> None:
    shown = {metric for _, query in queries() for metric, _ in asked_for(query)}
    alerted = {metric for rule in rules() for metric, _ in asked_for(rule["expr"])}
    families = {
        metric.removesuffix("_sum").removesuffix("_count").removesuffix("_bucket") for metric in labels_by_metric()
    }
    seen = {metric.removesuffix("_count").removesuffix("_bucket") for metric in shown | alerted}
    left_out = {  # details of what is shown
        "gen_ai_client_inference_duration_seconds",
        "gen_ai_client_inference_operation_input_tokens",
        "gen_ai_client_inference_operation_output_tokens",
        "gen_ai_client_inference_usage_cache_read_input_tokens_total",
        "gen_ai_server_time_per_output_token_seconds",
        "tidegate_kept_size_bytes",
        "tidegate_telemetry_rejected_total",
    }
    assert families - seen == left_out


def test_no_picture_stands_upon_another() -> None:
    for name in dashboards.DASHBOARDS:
        places = [tuple(panel["gridPos"].values()) for of, panel in panels() if of == name]
        assert len(set(places)) == len(places)


def test_provisioning_names_where_the_files_lie() -> None:
    assert {path.stem for path in Path("deploy/grafana").glob("*.json")} == set(dashboards.DASHBOARDS)

"""The dashboards: `python -m deploy.grafana.dashboards` writes them, and a check holds the files to this module.

Panels are given in the order in which they are read, three to a row; the first row is what is looked at first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
WIDTH, HEIGHT, ACROSS = 8, 8, 3
SOURCE = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True)
class Panel:
    """One picture.

    Attributes:
        queries: What each line is called, to its query.
        unit: As Grafana names it.
        kind: `timeseries`, or `stat` for one number.
        thresholds: From which value on a number is in which colour; the first has no lower end.
    """

    title: str
    queries: Mapping[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    thresholds: Sequence[tuple[float | None, str]] = ((None, "green"),)
    says: str = ""


def rate(metric: str, by: str = "", where: str = "") -> str:
    """A counter's rate, summed."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{_at(where)}}}[$__rate_interval]))"


def quantile(share: float, histogram: str, by: str = "") -> str:
    """A quantile of a histogram."""
    labels = f"le, {by}" if by else "le"
    inner = f"sum by ({labels}) (rate({histogram}_bucket{{{_at()}}}[$__rate_interval]))"
    return f"histogram_quantile({share}, {inner})"


def gauge(metric: str, by: str = "", where: str = "", how: str = "sum") -> str:
    """A gauge as it stands."""
    return f"{how}{f' by ({by})' if by else ''} ({metric}{{{_at(where)}}})"


def _at(where: str = "") -> str:
    return ", ".join(filter(None, ('instance=~"$instance"', where)))


OVERVIEW = (
    Panel(
        "Restricted data sent to a cloud",
        {"attempts": gauge("tidegate_egress_restricted_to_cloud_total", how="max")},
        kind="stat",
        thresholds=((None, "green"), (1, "red")),
        says="Anything but 0 is an incident.",
    ),
    Panel(
        "Requests that failed, in the last hour",
        {"share": "max(tidegate:requests_failed:ratio_1h)"},
        "percentunit",
        "stat",
        ((None, "green"), (0.001, "orange"), (0.0144, "red")),
    ),
    Panel(
        "Streams that began late, in the last hour",
        {"share": "max(tidegate:first_token_late:ratio_1h)"},
        "percentunit",
        "stat",
        ((None, "green"), (0.05, "red")),
    ),
    Panel(
        "Requests, by who answered",
        {"{{tidegate_target}}": rate("tidegate_requests_total", "tidegate_target")},
        "reqps",
    ),
    Panel(
        "Requests, by how they ended",
        {"{{tidegate_outcome}}": rate("tidegate_requests_total", "tidegate_outcome")},
        "reqps",
    ),
    Panel(
        "Requests, by class",
        {"{{tidegate_label_class}}": rate("tidegate_requests_total", "tidegate_label_class")},
        "reqps",
    ),
    Panel(
        "Bytes of requests, by where they went",
        {"{{tidegate_target_kind}}": rate("tidegate_egress_bytes_total", "tidegate_target_kind")},
        "Bps",
        says="`edge` is this device: those bytes have not left.",
    ),
    Panel(
        "Whole answers",
        {
            "half": quantile(0.5, "gen_ai_server_request_duration_seconds"),
            "19 of 20": quantile(0.95, "gen_ai_server_request_duration_seconds"),
        },
        "s",
    ),
    Panel(
        "First content",
        {
            "half": quantile(0.5, "gen_ai_server_time_to_first_token_seconds"),
            "19 of 20": quantile(0.95, "gen_ai_server_time_to_first_token_seconds"),
        },
        "s",
    ),
    Panel(
        "Tokens",
        {
            "in, {{tidegate_target}}": rate("gen_ai_client_inference_usage_input_tokens_total", "tidegate_target"),
            "out, {{tidegate_target}}": rate("gen_ai_client_inference_usage_output_tokens_total", "tidegate_target"),
        },
    ),
    Panel(
        "Money for an hour at this rate",
        {
            "{{tidegate_target}}, {{tidegate_currency}}": "3600 * "
            + rate("tidegate_cost_total", "tidegate_target, tidegate_currency")
        },
    ),
    Panel(
        "Watts, estimated",
        {"{{tidegate_target}}": rate("tidegate_energy_estimated_joules_total", "tidegate_target")},
        "watt",
    ),
)
RELIABILITY = (
    Panel(
        "Addresses that are up",
        {"{{tidegate_target}}": gauge("tidegate_endpoint_health", "tidegate_target", 'tidegate_health="up"')},
    ),
    Panel(
        "Breakers that are open",
        {"{{tidegate_target}}": gauge("tidegate_endpoint_breaker", "tidegate_target", 'tidegate_breaker="open"')},
    ),
    Panel(
        "How this device is connected",
        {"{{tidegate_connectivity}}": gauge("tidegate_connectivity_state", "tidegate_connectivity", how="max")},
    ),
    Panel(
        "Attempts, by why they were made",
        {"{{tidegate_attempt_cause}}": rate("tidegate_attempts_total", "tidegate_attempt_cause")},
    ),
    Panel(
        "Targets that others stood in for",
        {
            "{{tidegate_fallback_from}} to {{tidegate_target}}: {{error_type}}": rate(
                "tidegate_fallbacks_total", "tidegate_fallback_from, tidegate_target, error_type"
            )
        },
    ),
    Panel("Callers turned away", {"{{error_type}}": rate("tidegate_denials_total", "error_type")}, "reqps"),
    Panel(
        "In work, and waiting for a target",
        {"in work": gauge("tidegate_in_flight"), "waiting": gauge("tidegate_target_waiting")},
    ),
    Panel(
        "Deferred and kept",
        {"in the outbox": gauge("tidegate_outbox_waiting"), "kept for who hung up": gauge("tidegate_kept_running")},
    ),
    Panel(
        "Where a request's time here goes",
        {"{{tidegate_part}}": quantile(0.95, "tidegate_part_duration_seconds", "tidegate_part")},
        "s",
    ),
    Panel(
        "Records and telemetry that were lost",
        {
            "records": rate("tidegate_records_failed_total"),
            "telemetry, {{tidegate_drop_reason}}": rate("tidegate_telemetry_dropped_total", "tidegate_drop_reason"),
        },
    ),
    Panel("Telemetry that waits for the collector", {"waiting": gauge("tidegate_telemetry_spooled_bytes")}, "bytes"),
    Panel(
        "Policy",
        {
            "version in force": gauge("tidegate_policy_version", how="max"),
            "waiting for signatures": gauge("tidegate_policy_held"),
            "ways in which it is looser": gauge("tidegate_policy_looser", how="max"),
        },
    ),
)
_PLACE = "tidegate_target, tidegate_endpoint"
RUNTIMES = (
    Panel("Slots that are taken", {"{{tidegate_endpoint}}": gauge("tidegate_engine_running", _PLACE)}),
    Panel("Slots there are", {"{{tidegate_endpoint}}": gauge("tidegate_engine_slots", _PLACE)}),
    Panel("Requests that wait for a slot", {"{{tidegate_endpoint}}": gauge("tidegate_engine_waiting", _PLACE)}),
    Panel(
        "A token's time, by how many are answered at once",
        {"{{tidegate_batch}}": gauge("tidegate_engine_step_duration_seconds", f"{_PLACE}, tidegate_batch", how="max")},
        "s",
    ),
    Panel("How fast a prompt is read", {"{{tidegate_endpoint}}": gauge("tidegate_engine_prefill_speed", _PLACE)}),
    Panel(
        "Prompt tokens that wait to be read", {"{{tidegate_endpoint}}": gauge("tidegate_engine_prefill_queued", _PLACE)}
    ),
    Panel(
        "Share of drafts that were right",
        {
            "{{tidegate_endpoint}}": rate("tidegate_engine_accepted_total", _PLACE)
            + " / "
            + rate("tidegate_engine_drafted_total", _PLACE)
        },
        "percentunit",
    ),
    Panel(
        "Attempts at a target, to the first content",
        {
            "{{tidegate_target}}": quantile(
                0.95, "gen_ai_client_inference_time_to_first_chunk_seconds", "tidegate_target"
            )
        },
        "s",
    ),
    Panel("Attempts that an address works on", {"{{tidegate_endpoint}}": gauge("tidegate_endpoint_in_flight", _PLACE)}),
)
DASHBOARDS = {"overview": OVERVIEW, "reliability": RELIABILITY, "runtimes": RUNTIMES}


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard as Grafana reads it."""
    others = [{"type": "dashboards", "tags": ["tidegate"], "title": "Tidegate", "asDropdown": True}]
    instances = "label_values(tidegate_in_flight, instance)"
    return {
        "uid": f"tidegate-{name}",
        "title": f"Tidegate: {name}",
        "tags": ["tidegate"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "links": others,
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "instance",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": instances,
                    "includeAll": True,
                    "allValue": ".*",
                    "multi": True,
                },
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(DASHBOARDS[name])],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    steps = [{"value": value, "color": color} for value, color in panel.thresholds]
    row, column = divmod(number, ACROSS)
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": called}
            for at, (called, query) in enumerate(panel.queries.items())
        ],
    }


def written(name: str) -> str:
    """Return a dashboard's file."""
    return json.dumps(dashboard(name), indent=2) + "\n"


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / f"{each}.json").write_text(written(each), encoding="utf-8")

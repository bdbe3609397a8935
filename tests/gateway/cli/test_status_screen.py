"""The screen of `tidegate status`: what is out of the ordinary is on it, and rates come from two looks."""

from __future__ import annotations

import copy
from typing import Any

from rich.console import Console

from gateway.cli.status_screen import Look, screen

PLAIN: dict[str, Any] = {
    "gateway": {"in_flight": 3, "body_bytes": 10, "draining": False},
    "kept": {"running": 0, "answers": 0, "bytes": 0, "waiting": 0},
    "policy": {
        "in_force": {"name": "balanced", "version": 4},
        "stale": None,
        "canary": None,
        "shadow": None,
        "held": None,
    },
    "connectivity": {"state": "online", "for_s": 8.0},
    "targets": {
        "edge": {
            "detail": None,
            "waiting": 2,
            "endpoints": [
                {
                    "endpoint": "unix:/run/edge.sock",
                    "health": "up",
                    "back_in_s": None,
                    "breaker": "closed",
                    "in_flight": 1,
                    "running": 2,
                    "waiting": 5,
                    "provider": "CPUExecutionProvider",
                }
            ],
        }
    },
    "outcomes": {"requests": {"ok": 10, "refused": 1}, "attempts": {"edge": {"ok": 10, "cut": 2}}},
}


def shown(now: dict[str, Any], before: dict[str, Any] | None = None) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(screen(Look(now, 12.0), None if before is None else Look(before, 10.0)))
    return captured.get()


def test_it_says_what_runs_and_what_has_been_answered() -> None:
    text = shown(PLAIN)
    assert "3 in flight · policy balanced version 4 · online" in text
    row = next(line for line in text.splitlines() if line.startswith("edge"))
    assert row.split() == ["edge", "up", "2", "7", "10", "2", "CPU", "unix:/run/edge.sock"]
    assert "requests  10 ok, 1 refused" in text
    assert "/s" not in text


def test_a_second_look_tells_rates() -> None:
    now = copy.deepcopy(PLAIN)
    now["outcomes"] = {"requests": {"ok": 30, "refused": 1}, "attempts": {"edge": {"ok": 30, "cut": 2}}}
    text = shown(now, PLAIN)
    assert "30 (10.0/s)" in text
    assert "30 ok, 1 refused · 10.0/s" in text


def test_what_is_out_of_the_ordinary_has_a_line() -> None:
    now = copy.deepcopy(PLAIN)
    fault = {"seconds": 61.2, "file": "site.yaml", "line": 3, "column": 9, "message": "unknown field"}
    now["policy"] |= {
        "stale": fault,
        "canary": {"name": "next", "version": 5, "percent": 5.0},
        "held": {"version": 6},
    }
    now["kept"]["waiting"] = 4
    now["gateway"]["draining"] = True
    now["targets"]["edge"]["endpoints"][0] |= {"health": "failing", "breaker": "open", "back_in_s": 12.0}
    now["targets"]["edge"]["detail"] = "it was cut off three times"
    text = shown(now)
    for words in (
        "refused since 61 s: site.yaml:3:9: unknown field",
        "next version 5, 5 % of requests",
        "version 6 waits for signatures",
        "4 requests wait",
        "draining",
        "failing, breaker open for 12 s",
        "it was cut off three times",
    ):
        assert words in text

"""What `tidegate status` shows, from one document of the admin listener and the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_COLOURS = {"up": "green", "ok": "green", "online": "green", "starting": "yellow", "draining": "yellow", "down": "red"}


@dataclass(frozen=True, slots=True)
class Look:
    """One document of `/status`, and when it was read in monotonic seconds."""

    status: Mapping[str, Any]
    at: float


def screen(now: Look, before: Look | None = None) -> RenderableType:
    """Return the screen.

    Args:
        now: What stands there.
        before: An earlier look, from which rates are told; without one they are left out.
    """
    found = now.status
    lines = [_headline(found), *map(Text, _remarks(found))]
    outcomes = _outcomes(found["outcomes"]["requests"], now, before)
    return Group(*lines, Text(), _targets(now, before), Text(), Text(f"requests  {outcomes}"))


def _headline(found: Mapping[str, Any]) -> Text:
    gateway, policy = found["gateway"], found["policy"]["in_force"]
    doing = "draining" if gateway["draining"] else f"{gateway['in_flight']} in flight"
    connected = found["connectivity"]["state"]
    line = Text(f"gateway   {doing} · policy {policy['name']} version {policy['version']} · ")
    return line.append(connected, _COLOURS.get(connected, "yellow"))


def _remarks(found: Mapping[str, Any]) -> list[str]:
    """What is out of the ordinary, a line each."""
    policy, kept = found["policy"], found["kept"]
    remarks = []
    if policy["stale"] is not None:
        stale = policy["stale"]
        place = f"{stale['file']}:{stale['line']}:{stale['column']}"
        remarks.append(f"policy    its file is refused since {stale['seconds']:.0f} s: {place}: {stale['message']}")
    for trial in ("canary", "shadow"):
        if policy[trial] is not None:
            one = policy[trial]
            remarks.append(f"{trial:<10}{one['name']} version {one['version']}, {one['percent']:g} % of requests")
    if policy["held"] is not None:
        remarks.append(f"held      version {policy['held']['version']} waits for signatures: `tidegate policy status`")
    if any(kept.values()):
        waiting, answers = kept["waiting"], kept["answers"]
        remarks.append(f"kept      {waiting} requests wait, {kept['running']} run, {answers} answers to be fetched")
    return remarks


def _targets(now: Look, before: Look | None) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("target", "health", "running", "waiting", "answered", "failed", "provider", "endpoint"):
        is_number = heading in {"running", "waiting", "answered", "failed"}
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    attempts = now.status["outcomes"]["attempts"]
    for name, target in now.status["targets"].items():
        made: Mapping[str, int] = attempts.get(name, {})
        answered, failed = made.get("ok", 0), sum(made.values()) - made.get("ok", 0)
        for nth, endpoint in enumerate(target["endpoints"]):
            first = nth == 0
            table.add_row(
                name if first else "",
                _health(endpoint),
                _load(endpoint),
                str(target["waiting"] + (endpoint["waiting"] or 0)),
                _counted(answered, now, before, name) if first else "",
                str(failed) if first else "",
                (endpoint["provider"] or "").removesuffix("ExecutionProvider"),
                endpoint["endpoint"],
            )
        if target["detail"]:
            table.add_row("", Text(target["detail"], "dim"))
    return table


def _health(endpoint: Mapping[str, Any]) -> Text:
    words = endpoint["health"] if endpoint["breaker"] == "closed" else f"{endpoint['health']}, breaker open"
    back = f" for {endpoint['back_in_s']:.0f} s" if endpoint["back_in_s"] else ""
    return Text(words + back, _COLOURS.get(endpoint["health"], "yellow"))


def _load(endpoint: Mapping[str, Any]) -> str:
    running = endpoint["in_flight"] if endpoint["running"] is None else max(endpoint["running"], endpoint["in_flight"])
    return str(running)


def _counted(answered: int, now: Look, before: Look | None, name: str) -> str:
    if before is None or now.at <= before.at:
        return str(answered)
    earlier = before.status["outcomes"]["attempts"].get(name, {}).get("ok", 0)
    return f"{answered} ({(answered - earlier) / (now.at - before.at):.1f}/s)"


def _outcomes(counts: Mapping[str, int], now: Look, before: Look | None) -> str:
    if not counts:
        return "none yet"
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    if before is None or now.at <= before.at:
        return told
    earlier = sum(before.status["outcomes"]["requests"].values())
    return f"{told} · {(sum(counts.values()) - earlier) / (now.at - before.at):.1f}/s"

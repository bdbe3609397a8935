"""`tidegate explain`: what would be decided for a request, and why, without sending it anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import JsonOption, SettingsOption, UrlOption, base_url, fail, trust
from gateway.cli.question import (
    BudgetOption,
    ClassOption,
    MaxTokensOption,
    ModelOption,
    Question,
    asked,
    refuse,
    unreachable,
)
from inference_protocol import paths

_TERMS = ("deadline", "exposure", "fit", "quality", "cost", "energy")


def explain(
    question: Question,
    budget_ms: BudgetOption = None,
    data_class: ClassOption = None,
    max_tokens: MaxTokensOption = None,
    model: ModelOption = "auto",
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    url: UrlOption = None,
) -> None:
    """Show what would be decided, and why; nothing is sent to any target."""
    sent = asked(question, budget_ms, data_class, max_tokens, model)
    endpoint = base_url(url, settings_file)
    try:
        response = httpx.post(
            f"{endpoint}{paths.ROUTE_EXPLAIN}",
            headers=dict(sent.fields),
            json=sent.body,
            trust_env=False,
            timeout=30,
            verify=trust(url, settings_file),
        )
    except httpx.TransportError as exc:
        fail(unreachable(endpoint, exc))
    refuse(response)
    show(response.json(), as_json=as_json)


def show(found: dict[str, Any], *, as_json: bool) -> None:
    """Print an explanation."""
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    console = Console(highlight=False)
    for line in _sentences(found):
        console.print(line, soft_wrap=True, markup=False)
    console.print()
    console.print(_targets(found))


def _sentences(found: dict[str, Any]) -> list[str]:
    scores = found["scores"]
    label = found["label"]
    kinds = ", ".join(f"{kind} x{count}" for kind, count in label["counts"].items())
    lines = [
        found["because"],
        "",
        f"label   {label['class']}" + (f" ({kinds})" if kinds else ""),
        f"scores  latency {scores['latency']:.2f}   privacy {scores['privacy']:.2f}   size {scores['size']:.2f}",
        f"policy  {found['policy']['name']}",
    ]
    told = {"client": _hints(found["client"]), "device": _device(found["device"])}
    lines += [f"{who}  {', '.join(words)}" for who, words in told.items() if words]
    return [*lines, *(f"note    {note}" for note in found["notes"])]


def _hints(client: dict[str, Any]) -> list[str]:
    """What the caller's device told of itself."""
    words = [client[name] for name in ("network", "effective_type") if client[name] != "unknown"]
    words += [word for name, word in (("metered", "metered"), ("save_data", "saves data")) if client[name]]
    if client["battery_percent"] is not None:
        words.append(f"battery {client['battery_percent']:g} %" + (" and charging" if client["charging"] else ""))
    return words


def _device(device: dict[str, Any]) -> list[str]:
    """What is not as usual, or not known from elsewhere, of the device that decides."""
    words = [device["connectivity"]] if device["connectivity"] != "online" else []
    return [*words, *([f"{device['free_memory_mb']:.0f} MB free"] if device["free_memory_mb"] is not None else [])]


def _targets(found: dict[str, Any]) -> Table:
    """One column a target, so that the table stays as narrow as there are targets."""
    targets = found["targets"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", style="dim")
    for name in targets:
        table.add_column(name, justify="right")

    def row(title: str, cell: Callable[[str, dict[str, Any]], str]) -> None:
        table.add_row(title, *(cell(name, facts) for name, facts in targets.items()))

    def term(name: str) -> Callable[[str, dict[str, Any]], str]:
        return lambda _, facts: f"{facts['terms'][name]:.2f}" if facts["eligible"] else ""

    row("", lambda name, facts: _standing(name, facts, found["target"]))
    for name in _TERMS:
        row(name, term(name))
    row("preferred", lambda _, facts: f"{facts['preferred']:.2f}" if facts["eligible"] else "")
    row("score", lambda _, facts: f"{facts['score']:.3f}" if facts["eligible"] else "")
    row("predicted ms", lambda _, facts: _predicted(facts))
    return table


def _standing(name: str, facts: dict[str, Any], chosen: str | None) -> str:
    if not facts["eligible"]:
        return f"no: {facts['excluded']['kind']}"
    return "chosen" if name == chosen else "eligible"


def _predicted(facts: dict[str, Any]) -> str:
    prediction = facts["prediction"]
    return "unknown" if prediction is None else f"{prediction['ttft_ms']:.0f} to {prediction['total_ms']:.0f}"

"""`tidegate conformance`: whether a gateway keeps its promises to clients, asked over bare sockets.

The cases are ways in which gateways are known to fail their clients. They ask any gateway that speaks OpenAI's API, and
look at nothing but what it sends back.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from gateway.cli.conformance.findings import Violation
from gateway.cli.conformance.run import Outcome, Result, run, share_passed
from gateway.cli.conformance.wire import Gateway
from gateway.cli.options import JsonOption, SettingsOption, UrlOption, base_url, fail
from inference_protocol import paths

KeyOption = Annotated[
    str | None,
    typer.Option("--key", envvar="OPENAI_API_KEY", help="The bearer token to ask with, where one is needed."),
]
ModelOption = Annotated[str | None, typer.Option("--model", help="Which model to ask; without it, the first listed.")]
PatienceOption = Annotated[
    float,
    typer.Option("--patience-s", min=0.1, help="Seconds that an answer, or giving up on half a request, may take."),
]
_MARKS = {
    Outcome.PASSED: "[green]pass[/green]",
    Outcome.FAILED: "[bold red]FAIL[/bold red]",
    Outcome.NOT_APPLICABLE: "[dim]n/a [/dim]",
}


def conformance(
    url: UrlOption = None,
    key: KeyOption = None,
    model: ModelOption = None,
    patience_s: PatienceOption = 60.0,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Check how a gateway, ours or any other, treats its clients; status 1 where it breaks a rule."""
    endpoint = base_url(url, settings_file)
    gateway = Gateway(endpoint, key, model or "", patience_s)
    if model is None:
        gateway = Gateway(endpoint, key, _first_model(gateway), patience_s)
    console = Console(highlight=False, soft_wrap=True)
    results: list[Result] = []
    for result in run(gateway):
        if not as_json:
            _show(console, result, is_first=not results or results[-1].group != result.group)
        results.append(result)
    counts = Counter(result.outcome for result in results)
    if as_json:
        typer.echo(json.dumps(_as_dict(gateway, results, counts), indent=2))
    else:
        told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome)
        console.print(
            f"\n{endpoint}, model {escape(gateway.model)}: {told}. {share_passed(results):.1%} of what applies."
        )
    raise typer.Exit(1 if counts[Outcome.FAILED] else 0)


def _first_model(gateway: Gateway) -> str:
    try:
        listed = gateway.reply(gateway.head("GET", paths.MODELS)).json()
        return str(listed["data"][0]["id"])
    except OSError as exc:
        fail(f"Nothing answers at {gateway.url} ({exc.strerror or type(exc).__name__}).")
    except (Violation, KeyError, IndexError, TypeError):
        fail(
            f"{gateway.url}{paths.MODELS} lists no model to ask. Name one with --model, and a key with --key if needed."
        )


def _show(console: Console, result: Result, *, is_first: bool) -> None:
    if is_first:
        console.print(f"\n[bold]{result.group}[/bold]")
    why = f"\n       [dim]{escape(result.why)}[/dim]" if result.why else ""
    console.print(f"  {_MARKS[result.outcome]} {escape(result.case)}{why}")


def _as_dict(gateway: Gateway, results: list[Result], counts: Counter[Outcome]) -> dict[str, object]:
    return {
        "url": gateway.url,
        "model": gateway.model,
        "share_passed": round(share_passed(results), 4),
        **{outcome.replace(" ", "_"): counts[outcome] for outcome in Outcome},
        "cases": [asdict(result) for result in results],
    }

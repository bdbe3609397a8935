"""`tidegate explain`: what would be decided for a request, and why, without sending it anywhere."""

from __future__ import annotations

import json
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import JsonOption, SettingsOption, UrlOption, base_url, fail
from inference_protocol import headers

_TERMS = ("deadline", "exposure", "fit", "quality", "cost", "energy")


def explain(
    question: Annotated[str, typer.Argument(help="What would be asked.")],
    budget_ms: Annotated[int | None, typer.Option(help="Milliseconds until the whole answer is due.")] = None,
    data_class: Annotated[str | None, typer.Option(help="public, internal, confidential or restricted.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens of the answer.")] = None,
    model: Annotated[str, typer.Option(help="Public model name.")] = "auto",
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    url: UrlOption = None,
) -> None:
    """Show what would be decided, and why; nothing is sent to any target."""
    fields: dict[str, str] = {}
    if budget_ms is not None:
        fields[headers.LATENCY_BUDGET_MS] = str(budget_ms)
    if data_class is not None:
        fields[headers.DATA_CLASS] = data_class
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": question}]}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    endpoint = base_url(url, settings_file)
    try:
        response = httpx.post(f"{endpoint}/v1/route/explain", headers=fields, json=body, trust_env=False, timeout=30)
    except httpx.TransportError:
        fail(f"Nothing answers at {endpoint}. Start it with `tidegate up`, or name another place with --url.")
    found = response.json()
    if response.status_code != 200:
        fail(f"{found['error']['message']}  ({response.status_code} {found['error']['code']})")
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    console = Console(highlight=False)
    for line in _sentences(found):
        console.print(line, soft_wrap=True, markup=False)
    console.print(_targets(found))


def _sentences(found: dict[str, Any]) -> list[str]:
    scores = found["scores"]
    label = found["label"]
    kinds = ", ".join(f"{kind} x{count}" for kind, count in label["counts"].items())
    return [
        found["because"],
        f"label   {label['class']}" + (f" ({kinds})" if kinds else ""),
        f"scores  latency {scores['latency']:.2f}   privacy {scores['privacy']:.2f}   size {scores['size']:.2f}",
        f"policy  {found['policy']['name']}",
    ]


def _targets(found: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("target", "", *_TERMS, "preferred", "score"):
        table.add_column(column, justify="left" if column in ("target", "") else "right")
    for name, row in found["targets"].items():
        if not row["eligible"]:
            table.add_row(name, row["excluded"]["kind"])
        else:
            mark = "chosen" if name == found["target"] else "eligible"
            terms = (f"{row['terms'][term]:.2f}" for term in _TERMS)
            table.add_row(name, mark, *terms, f"{row['preferred']:.2f}", f"{row['score']:.3f}")
    return table

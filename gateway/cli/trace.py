"""`tidegate trace`: where one request went, why, and how long each part of its way took."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from gateway.cli import engine_trace
from gateway.cli.options import JsonOption, SettingsOption, fail, settings_or_fail
from gateway.cli.trace_search import FoundRequest, find_settled
from gateway.cli.waterfall import Row, bar, waterfall
from gateway.state_folder import StateFolder
from inference_protocol import telemetry_names as names

_WAIT_S = 3.0
_COLOURS = ("cyan", "green", "magenta", "yellow", "blue")
_LEAST_BAR = 8
_NUMBER_WIDTH = 6
_GAP = 2


def trace(
    request_id: Annotated[
        str | None,
        typer.Argument(
            help="The answer's x-request-id, your own request id, or a trace id. The last request if left out."
        ),
    ] = None,
    engine: Annotated[
        bool, typer.Option("--engine", help="Show what the edge engine did lately instead, step by step.")
    ] = False,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="The programs' state folder, if it is not the settings' own.")
    ] = None,
) -> None:
    """Show the way of one request through all programs as a waterfall."""
    folder = state_dir if state_dir is not None else settings_or_fail(settings_file).state_dir
    if engine:
        engine_trace.show(StateFolder(folder).edge_socket, as_json=as_json)
        return
    found = find_settled(folder, request_id, wait_s=_WAIT_S)
    if found is None:
        fail(_nothing_found(folder, request_id))
    rows = waterfall(found.spans)
    if as_json:
        typer.echo(orjson.dumps(_as_json(found, rows), option=orjson.OPT_INDENT_2))
        return
    console = Console(highlight=False)
    console.print(_header(found))
    console.print()
    console.print(_waterfall(rows, console))
    for note in _notes(found):
        console.print(Text(note, style="dim"))


def _nothing_found(folder: Path, request_id: str | None) -> str:
    elsewhere = "If the gateway runs with another state folder, name it with --state-dir or TIDEGATE_STATE_DIR."
    if request_id is None or not StateFolder(folder).records.is_dir():
        return f"No request is recorded under {folder}. {elsewhere}"
    return (
        f"Nothing under {folder} goes by the id {request_id!r}: look at the answer's x-request-id header. "
        f"A request of long ago may have been rotated away. {elsewhere}"
    )


def _as_json(found: FoundRequest, rows: list[Row]) -> dict[str, Any]:
    return {
        "request_id": found.request_id,
        "trace_id": found.trace_id,
        "decision": found.decision,
        "outcome": found.outcome,
        "rows": [dataclasses.asdict(row) for row in rows],
    }


def _notes(found: FoundRequest) -> list[str]:
    if not found.spans:
        return ["No spans: the trace was not sampled, was rotated away, or has not been written yet."]
    silent = {str(span.attributes.get(names.TARGET, span.name)) for span in found.silent_attempts}
    return [
        f"{name} has no spans here: it keeps its own traces, or has not written them yet." for name in sorted(silent)
    ]


def _header(found: FoundRequest) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    facts.add_row("request", found.request_id or "?")
    facts.add_row("trace", found.trace_id)
    if found.outcome is not None:
        facts.add_row("outcome", _outcome(found.outcome))
    else:
        facts.add_row("outcome", Text("none yet: it still runs, or its gateway died", style="yellow"))
    if found.decision is not None:
        for name, text in _decision_facts(found.decision).items():
            facts.add_row(name, text)
    if found.outcome is not None and found.outcome["tokens"] is not None:
        streamed = found.decision is not None and found.decision["stream"]
        facts.add_row("tokens", _tokens(found.outcome, streamed=streamed))
    return facts


def _outcome(outcome: dict[str, Any]) -> Text:
    good = outcome["outcome"] == "ok"
    text = Text(outcome["outcome"], style="bold green" if good else "bold red")
    if outcome["target"] is not None:
        text.append(f" from {outcome['target']}", style="bold")
    text.append(f" in {_ms(outcome['duration_ms'])} ms", style="default")
    if outcome["error"] not in (None, outcome["outcome"]):
        text.append(f" ({outcome['error']})", style="red")
    return text


def _decision_facts(decision: dict[str, Any]) -> dict[str, str]:
    label, scores = decision["label"], decision["scores"]
    order = " > ".join(_scored(e["target"], decision["terms"]) for e in decision["eligible"]) or "no target"
    facts = {"decision": f"{order}  ({decision['reason']})"}
    for target, exclusion in decision["excluded"].items():
        facts[f"not {target}"] = f"{exclusion['detail']} ({exclusion['rule'] or exclusion['kind']})"
    found = ", ".join(f"{kind} x{count}" for kind, count in label["findings"].items())
    facts["label"] = "  ".join(filter(None, (label["class"], " ".join(label["tags"]), found)))
    facts["scores"] = "  ".join(f"{name} {scores[name]:.2f}" for name in ("latency", "privacy", "size"))
    budget = {"total": decision["budget"]["total_ms"], "first content": decision["budget"]["ttft_ms"]}
    if any(ms is not None for ms in budget.values()):
        facts["budget"] = "  ".join(f"{name} {ms:.0f} ms" for name, ms in budget.items() if ms is not None)
    if predicted := [f"{n} {p['ttft_ms']:.0f}/{p['total_ms']:.0f} ms" for n, p in decision["predictions"].items() if p]:
        facts["predicted"] = f"{'  '.join(predicted)}  (first content/total)"
    facts["policy"] = f"{decision['policy']['name']} {decision['policy']['digest'][:12]}"
    return facts


def _scored(target: str, terms: dict[str, Any]) -> str:
    return f"{target} {terms[target]['score']:.2f}" if target in terms else target


def _tokens(outcome: dict[str, Any], *, streamed: bool) -> str:
    tokens, answered = outcome["tokens"], outcome["attempts"][-1]
    text = f"{tokens['input']} in ({tokens['cached']} cached), {tokens['output']} out"
    first_ms = answered["first_content_ms"]
    if first_ms is None or not streamed:
        return text  # a whole answer has no first token that the gateway could see
    text += f"; first after {_ms(first_ms)} ms"
    rest_s = (answered["duration_ms"] - first_ms) / 1000
    if tokens["output"] > 1 and rest_s > 0:
        text += f", then {(tokens['output'] - 1) / rest_s:.0f}/s"
    return text


def _waterfall(rows: list[Row], console: Console) -> RenderableType:
    total_ms = max((row.start_ms + row.duration_ms for row in rows), default=0.0) or 1.0
    services = list(dict.fromkeys(row.service for row in rows))
    colours = {service: _COLOURS[i % len(_COLOURS)] for i, service in enumerate(services)}
    short = {service: service.removeprefix("tidegate-").removesuffix("_runtime") for service in services}
    titles = ["  " * row.depth + row.name for row in rows]
    taken = _widest(short.values(), "program") + _widest(titles, "span") + 2 * _NUMBER_WIDTH + 4 * _GAP
    width = max(_LEAST_BAR, console.width - taken)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("program", no_wrap=True)
    table.add_column("span", no_wrap=True)
    table.add_column("at ms", justify="right", width=_NUMBER_WIDTH)
    table.add_column("ms", justify="right", width=_NUMBER_WIDTH)
    table.add_column("", no_wrap=True, width=width)
    for row, title in zip(rows, titles, strict=True):
        colour = "red" if row.is_error else colours[row.service]
        style = f"dim {colour}" if row.is_part else colour
        drawn = bar(row.start_ms / total_ms, row.duration_ms / total_ms, width, ascii_only=console.options.ascii_only)
        table.add_row(
            Text(short[row.service], style=colours[row.service]),
            Text(title, style="dim" if row.is_part else ""),
            _ms(row.start_ms),
            _ms(row.duration_ms),
            Text(drawn, style=style),
        )
    return table


def _widest(texts: Iterable[str], heading: str) -> int:
    return max([len(heading), *map(len, texts)])


def _ms(ms: float) -> str:
    return f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 1000 else f"{ms:.0f}"

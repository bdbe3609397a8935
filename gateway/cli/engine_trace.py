"""`tidegate trace --engine`: which requests ran in which step of the edge engine."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.cli.options import fail
from inference_protocol import paths
from inference_protocol.engine_steps import EngineStep, StepKind

_TIMEOUT_S = 5.0
_STEPS = TypeAdapter(list[EngineStep])
_STYLES = {
    StepKind.READ: "yellow",
    StepKind.RESTORE: "blue",
    StepKind.DECODE: "green",
    StepKind.CHECK: "magenta",
}
_REST = "·"


@dataclass(frozen=True, slots=True)
class Run:
    """Steps in a row that did the same for the same requests."""

    steps: tuple[EngineStep, ...]

    @property
    def first(self) -> EngineStep:
        """The step that it began with."""
        return self.steps[0]

    @property
    def what(self) -> str:
        """What was done, in words."""
        first, count = self.first, len(self.steps)
        tokens = sum(step.tokens for step in self.steps)
        match first.kind:
            case StepKind.READ:
                text = f"read {tokens} of a prompt"
            case StepKind.RESTORE:
                text = f"take {tokens} of a prompt from the disk"
            case StepKind.CHECK:
                accepted = sum(step.accepted for step in self.steps)
                text = f"check drafts, {accepted} of {tokens - count} right"
            case StepKind.DECODE:
                text = f"generate for {len(first.rows)}"
        return text if count == 1 else f"{text}, {count} steps"

    @property
    def duration_ms(self) -> float:
        """Of its steps together."""
        return sum(step.duration_ms for step in self.steps)


def runs(steps: Iterable[EngineStep]) -> list[Run]:
    """Join steps that did the same for the same requests, while equally many waited."""
    alike = itertools.groupby(steps, key=lambda step: (step.kind, step.rows, step.slot, step.waiting))
    return [Run(tuple(group)) for _, group in alike]


def show(socket: Path, *, as_json: bool) -> None:
    """Ask the edge runtime at a socket, and print what it tells."""
    raw = _fetch(socket)
    if as_json:
        typer.echo(orjson.dumps(orjson.loads(raw), option=orjson.OPT_INDENT_2))
        return
    try:
        steps = _STEPS.validate_python(orjson.loads(raw)["steps"])
    except (ValidationError, KeyError, orjson.JSONDecodeError):
        fail("The edge runtime answers in a form that is not known here: it is of another version.")
    console = Console(highlight=False)
    if not steps:
        console.print("The edge engine has done nothing yet: ask it something first.")
        return
    picture(steps, console)


def picture(steps: Sequence[EngineStep], console: Console) -> None:
    """Draw the steps, a line for each run of like ones, a column for each slot."""
    names = _names(steps)
    slots = max(step.slot + len(step.rows) for step in steps)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in ("at ms", "ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("slots", "step"):
        table.add_column(heading, no_wrap=True)
    table.add_column("waiting", justify="right")
    for run in runs(steps):
        first, style = run.first, _STYLES[run.first.kind]
        cells = [_REST] * slots
        cells[first.slot : first.slot + len(first.rows)] = [names[row] for row in first.rows]
        table.add_row(
            f"{(first.began_s - steps[0].began_s) * 1000:.1f}",
            f"{run.duration_ms:.1f}",
            Text("".join(cells), style=f"bold {style}"),
            Text(run.what, style=style),
            str(first.waiting or ""),
        )
    console.print(table)
    console.print()
    for request, name in names.items():
        console.print(Text(f"{name}  {request}", style="dim"))


def _names(steps: Iterable[EngineStep]) -> dict[str, str]:
    """Give each request a letter, in the order in which they came; there are more requests than letters at times."""
    requests = dict.fromkeys(row for step in steps for row in step.rows)
    return dict(zip(requests, itertools.cycle(string.ascii_uppercase), strict=False))


def _fetch(socket: Path) -> bytes:
    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=_TIMEOUT_S) as client:
            answer = client.get(f"http://edge{paths.STEPS}")
            answer.raise_for_status()
    except httpx.HTTPError as error:
        fail(
            f"The edge runtime does not answer at {socket}: {error}. `tidegate up` or `tidegate edge serve` starts it."
        )
    return answer.content

"""`tidegate doctor`: what is well here, what is not, and what mends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.doctor.checkup import check_up
from gateway.cli.doctor.finding import Finding, State, fail, ok
from gateway.cli.options import JsonOption, SettingsOption
from gateway.cli.policy.common import say_json
from gateway.settings_file import SettingsError, load_settings

_MARKS = {State.OK: "[green]ok[/]", State.WARN: "[yellow]warn[/]", State.FAIL: "[red]fail[/]"}


def doctor(
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail it, too.")] = False,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Look at settings, policy, machine, programs, models and targets. Ends with 1 if something is to be mended.

    It changes nothing, and sends nothing to a target but the probe that a running gateway sends.
    """
    found = _looked(settings_file, Console(stderr=True))
    if as_json:
        say_json({"findings": [each.to_json() for each in found], "worst": _worst(found)})
    else:
        _say(found)
    bad = {State.FAIL, State.WARN} if strict else {State.FAIL}
    raise typer.Exit(int(any(each.state in bad for each in found)))


def _looked(settings_file: Path | None, console: Console) -> list[Finding]:
    try:
        settings = load_settings(settings_file)
    except SettingsError as exc:
        return [fail("settings", str(exc), "mend the file; docs/settings.md lists every field")]
    with console.status("Looking") as status:
        found = check_up(settings, lambda name: status.update(f"Looking at {name}"))
        return [ok("settings", f"read; state folder {settings.state_dir}"), *found]


def _say(found: list[Finding]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in found:
        fix = "" if each.fix is None else f"\n[dim]→[/] {_plain(each.fix)}"
        table.add_row(_MARKS[each.state], _plain(each.check), _plain(each.says) + fix)
    Console(highlight=False).print(table)
    bad = sum(each.state is State.FAIL for each in found)
    dubious = sum(each.state is State.WARN for each in found)
    typer.echo(f"\n{len(found)} looked at, {bad} to be mended, {dubious} to be thought about")


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def _worst(found: list[Finding]) -> State:
    states = {each.state for each in found}
    return next(state for state in (State.FAIL, State.WARN, State.OK) if state in states)

"""`tidegate policy matrix`: which data may go where, as a table or as a page to print and hand around."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.cli.options import JsonOption, SettingsOption
from gateway.cli.policy.common import PolicyArgument, policy_or_exit, say_json, unreadable
from gateway.cli.policy.matrix_page import page_of
from routing_policies.lab.domain import TooManyCells
from routing_policies.lab.matrix import Answer, Row, matrix_of

_STYLES = {Answer.YES: "green", Answer.DEPENDS: "yellow", Answer.NO: "red"}


def matrix(
    source: PolicyArgument = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page of its own there.")] = None,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Show which class of data, with which tag, may go to which target, and why not."""
    loaded = policy_or_exit(source, settings_file)
    try:
        rows = matrix_of(loaded)
    except TooManyCells as exc:
        unreadable(f"not told: too many cells ({exc}); fewer or simpler conditions need fewer")
    if html is not None:
        html.write_text(page_of(loaded, rows), encoding="utf-8")
        typer.echo(f"{html}: written")
    elif as_json:
        say_json([_as_json(row) for row in rows])
    else:
        _say(rows)


def _as_json(row: Row) -> dict[str, object]:
    cells = {
        name: {"answer": cell.answer, "reason": cell.reason, "rules": cell.rules} for name, cell in row.cells.items()
    }
    return {"class": row.level.word, "tag": row.tag, "targets": cells}


def _say(rows: list[Row]) -> None:
    console = Console(highlight=False)
    table = Table(box=SIMPLE, pad_edge=False, header_style="bold")
    for heading in ("class", "tag", *rows[0].cells):
        table.add_column(heading)
    for before, row in zip([None, *rows], rows, strict=False):
        first = before is None or before.level != row.level
        if first and before is not None:
            table.add_section()
        cells = (Text(cell.in_brief(), style=_STYLES[cell.answer]) for cell in row.cells.values())
        table.add_row(row.level.word if first else "", row.tag or "none", *cells)
    console.print(table)

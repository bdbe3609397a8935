"""What the commands share: reading a policy and records, and how a command ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from gateway.cli.options import settings_or_fail
from gateway.policies.bundle import read_bundle
from gateway.policies.document import read_document
from observability.json_lines import lines_of
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loader import LoadedPolicy, read_text

FOUND, UNREADABLE = 1, 2

PolicyArgument = Annotated[
    str | None,
    typer.Argument(metavar="[POLICY]", help="A policy file, a bundle or a built-in name; else the settings'."),
]
RecordsOption = Annotated[
    Path | None, typer.Option("--records", help="Recorded decisions: a JSON-lines file, or the folder of them.")
]


def policy_or_exit(source: str | None, settings_file: Path | None = None) -> LoadedPolicy:
    """Read a policy, be it in a bundle, its invariants unproved, or end the command with what is wrong."""
    named = source if source is not None else settings_or_fail(settings_file).policy
    try:
        document = read_document(named)
        bundle = read_bundle(document)
        return read_text(document.text if bundle is None else bundle.policy, document.origin)
    except PolicyError as exc:
        unreadable(str(exc))


def records_or_exit(path: Path) -> Iterator[bytes]:
    """Yield the lines of records in the order of time, or end the command where there is nothing to read."""
    if path.is_dir():
        return lines_of(path)
    if not path.is_file():
        unreadable(f"{path}: there is no such file or folder")
    return _lines(path)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def say_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def unreadable(message: str) -> NoReturn:
    """End the command: what it was given cannot be read."""
    typer.secho(message, fg=typer.colors.RED, err=True)
    raise typer.Exit(UNREADABLE)


def end(*, found: bool) -> None:
    """End the command."""
    raise typer.Exit(FOUND if found else 0)

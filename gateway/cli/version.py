"""`tidegate --version`."""

from __future__ import annotations

import importlib.metadata
from typing import Annotated

import typer


def _tell(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidegate {importlib.metadata.version('tidegate')}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_tell, is_eager=True)
    ] = False,
) -> None:
    """One local endpoint in front of a model on this box and a large one elsewhere."""

"""`tidegate policy`: look at a policy before it is in force."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.cli.checks import named_policy
from gateway.cli.options import SettingsOption, settings_or_fail

app = typer.Typer(help="Look at a policy before it is in force.", no_args_is_help=True)


@app.command()
def check(
    source: Annotated[str | None, typer.Argument(help="A policy file or a built-in name; else the settings'.")] = None,
    settings_file: SettingsOption = None,
) -> None:
    """Load a policy, run its own tests, and say what is wrong with it."""
    loaded = named_policy(source if source is not None else settings_or_fail(settings_file).policy)
    typer.echo(f"{loaded.policy.name}: good ({loaded.digest[:12]})")

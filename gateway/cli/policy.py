"""`tidegate policy`: look at a policy before it is in force."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.options import SettingsOption, fail, settings_or_fail
from gateway.cli.serve import refuse_failing_tests
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loader import builtin_names, load_policy

app = typer.Typer(help="Look at a policy before it is in force.", no_args_is_help=True)


@app.command()
def check(
    source: Annotated[str | None, typer.Argument(help="A policy file or a built-in name; else the settings'.")] = None,
    settings_file: SettingsOption = None,
) -> None:
    """Load a policy, run its own tests, and say what is wrong with it."""
    named = source if source is not None else settings_or_fail(settings_file).policy
    try:
        loaded = load_policy(named if named in builtin_names() else Path(named))
    except PolicyError as exc:
        fail(str(exc))
    refuse_failing_tests(loaded)
    typer.echo(f"{loaded.policy.name}: good ({loaded.digest[:12]})")

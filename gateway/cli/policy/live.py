"""`tidegate policy status`, `versions`, `reload`, `activate`, `rollback`: the policy of a running gateway."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.admin import paths
from gateway.cli.options import JsonOption, SettingsOption
from gateway.cli.policy.admin_client import AdminClient, AdminUrlOption, WhyOption, in_words, say_change
from gateway.cli.policy.common import end, say_json


def status(as_json: JsonOption = False, settings_file: SettingsOption = None, url: AdminUrlOption = None) -> None:
    """Show what is in force, on trial, waiting or refused. Fails where the policy's file is refused."""
    found = AdminClient(url, settings_file).get(paths.POLICY)
    if as_json:
        say_json(found)
    else:
        _say_status(found)
    end(found=found["stale"] is not None)


def versions(as_json: JsonOption = False, settings_file: SettingsOption = None, url: AdminUrlOption = None) -> None:
    """List the versions that can be gone back to, and who put them in force last."""
    found = AdminClient(url, settings_file).get(paths.VERSIONS)
    if as_json:
        say_json(found)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("version", "policy", "last in force since", "by", "why"):
        table.add_column(heading)
    for entry in found["versions"]:
        mark = "*" if entry["number"] == found["in_force"] else " "
        by = ", ".join([entry["who"], *(f"signed by {person}" for person in entry["people"])])
        name = f"{entry['name']}@{entry['digest'][:12]}{' (looser)' if entry['looser'] else ''}"
        at = f"{entry['time'][:19].replace('T', ' ')} UTC"
        table.add_row(f"{mark}{entry['number']}", name, at, by, entry["why"])
    # One line each, also where it is piped: a reader's pager wraps better than a table does.
    Console(highlight=False, width=max(200, Console().width), soft_wrap=True).print(table)


def reload(
    why: WhyOption = "", as_json: JsonOption = False, settings_file: SettingsOption = None, url: AdminUrlOption = None
) -> None:
    """Have the policy's file read again, and put in force what it holds."""
    _show(AdminClient(url, settings_file).post(paths.RELOAD, why=why), as_json=as_json)


def activate(
    number: Annotated[int, typer.Argument(help="Of the version, as `versions` lists it.", min=1)],
    why: WhyOption = "",
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    url: AdminUrlOption = None,
) -> None:
    """Put a version that was in force before in force again."""
    _show(AdminClient(url, settings_file).post(paths.ACTIVATE, number=number, why=why), as_json=as_json)


def rollback(
    why: WhyOption = "", as_json: JsonOption = False, settings_file: SettingsOption = None, url: AdminUrlOption = None
) -> None:
    """Put the version in force again that was before this one. It stays until the policy's file changes."""
    _show(AdminClient(url, settings_file).post(paths.ROLLBACK, why=why), as_json=as_json)


def _show(change: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(change)
    else:
        say_change(change)
    end(found=change["became"] == "held")


def _say_status(found: dict[str, Any]) -> None:
    typer.echo(f"in force   {_version(found['in_force'])}, from {found['in_force']['origin']}")
    stale, canary, shadow, held = found["stale"], found["canary"], found["shadow"], found["held"]
    if stale is not None:
        place = f"{stale['file']}:{stale['line']}:{stale['column']}"
        typer.secho(f"refused    {place}: {stale['message']} ({stale['seconds']:.0f} s ago)", fg=typer.colors.RED)
    if canary is not None:
        typer.echo(f"canary     {_version(canary)}, for {canary['percent']:g} % by {canary['by']}")
    if shadow is not None:
        typer.echo(f"shadow     {_version(shadow)}, for {shadow['percent']:g} %")
    if held is not None:
        canary = f" as a canary for {held['share']}" if held["place"] == "canary" else ""
        typer.echo(f"waiting    {_version(held)}{canary}, for {in_words(held)}")
        for one in held["looser"]:
            typer.secho(f"looser     {one['words']}", fg=typer.colors.YELLOW)
    change = found["last_change"]
    for one in change["looser"] if change is not None else ():
        what = "what came into force last" if change["became"] == "in_force" else f"the {change['became']}"
        typer.secho(f"looser     {what}: {one['words']}", fg=typer.colors.YELLOW)


def _version(found: dict[str, Any]) -> str:
    return f"{found['name']}@{found['digest'][:12]}, version {found['version']}"

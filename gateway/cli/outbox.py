"""`tidegate outbox`: the requests that wait until somebody can answer, and what became of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.admin import paths
from gateway.cli.options import JsonOption, SettingsOption, fail
from gateway.cli.policy.admin_client import AdminClient, AdminUrlOption
from gateway.cli.policy.common import say_json

app = typer.Typer(help="Look after requests that wait until somebody can answer.", no_args_is_help=True)


@app.command("list")
def list_(as_json: JsonOption = False, settings_file: SettingsOption = None, url: AdminUrlOption = None) -> None:
    """List the requests in the outbox, in the order in which they are answered."""
    found = AdminClient(url, settings_file).get(paths.OUTBOX)
    if as_json:
        say_json(found)
        return
    if not found["requests"]:
        typer.echo("The outbox is empty.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("id", "status", "place", "key", "waits for", "bytes", "expires"):
        table.add_column(heading)
    for each in found["requests"]:
        status = each["status"] if each["reason"] is None else f"{each['status']} ({each['reason']})"
        place = "" if each["position"] is None else str(each["position"])
        waits = ", ".join(each["waits_for"])
        table.add_row(each["id"], status, place, each["key"], waits, str(each["bytes"]), each["expires_at"])
    Console(highlight=False, width=None).print(table)


@app.command()
def show(
    request_id: Annotated[str, typer.Argument(help="Of the request, as `list` shows it.")],
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    url: AdminUrlOption = None,
) -> None:
    """Show how one request stands; nobody but its caller can see what it holds."""
    found = AdminClient(url, settings_file).get(paths.OUTBOX)["requests"]
    one: dict[str, Any] | None = next((each for each in found if each["id"] == request_id), None)
    if one is None:
        fail(f"There is no request {request_id} in the outbox.")
    if as_json:
        say_json(one)
        return
    for name, value in one.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        typer.echo(f"{name:<12} {'' if shown is None else shown}".rstrip())


@app.command()
def flush(as_json: JsonOption = False, settings_file: SettingsOption = None, url: AdminUrlOption = None) -> None:
    """Have every waiting request looked at now; what still nobody can answer goes on waiting."""
    found = AdminClient(url, settings_file).post(paths.OUTBOX_FLUSH)
    if as_json:
        say_json(found)
    else:
        typer.echo(f"{found['waiting']} waiting; those that somebody can answer are being sent.")


@app.command()
def drop(
    ids: Annotated[list[str] | None, typer.Argument(help="Of the requests, as `list` shows them.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="All that have not been sent yet.")] = False,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    url: AdminUrlOption = None,
) -> None:
    """Forget requests and their answers, for good."""
    if bool(ids) == waiting:
        fail("Name requests, or say --waiting.")
    found = AdminClient(url, settings_file).post(paths.OUTBOX_DROP, ids=ids or [], waiting=waiting)
    if as_json:
        say_json(found)
    else:
        typer.echo(f"{len(found['dropped'])} dropped")

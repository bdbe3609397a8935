"""`tidegate policy canary …` and `shadow …`: another policy beside the one in force, acted on for some, or for none."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.admin import paths
from gateway.cli.options import JsonOption, SettingsOption, settings_or_fail
from gateway.cli.policy.admin_client import AdminClient, AdminUrlOption, WhyOption, say_change
from gateway.cli.policy.common import end, say_json, unreadable
from gateway.policies.document import read_document
from gateway.policies.holder import StickyBy
from gateway.policies.trial_report import Fared, Shadowed, fared, shadowed
from gateway.records.reader import read_records
from routing_policies.policy.errors import PolicyError

RecordsOption = Annotated[
    Path | None, typer.Option("--records", help="Another folder of records than the settings'.", file_okay=False)
]
CandidateArgument = Annotated[str, typer.Argument(metavar="POLICY", help="A policy file, a bundle or a built-in name.")]


def _folder(records: Path | None, settings_file: Path | None) -> Path:
    """Return where records are read: the folder that was named, else this machine's own."""
    return records if records is not None else settings_or_fail(settings_file).folder.records


def _sent(source: str) -> dict[str, str]:
    """Read what is sent to the gateway, which reads no file that a call names."""
    try:
        document = read_document(source)
        return {"document": document.text, "origin": document.origin}
    except PolicyError as exc:
        unreadable(str(exc))


def _show(change: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(change)
    else:
        say_change(change)
    end(found=change["became"] == "held")


def start_canary(
    policy: CandidateArgument,
    percent: Annotated[float, typer.Option("--percent", min=0.01, max=100, help="Of tenants or conversations.")],
    by: Annotated[StickyBy, typer.Option("--by", help="What always meets the same policy.")] = StickyBy.TENANT,
    why: WhyOption = "",
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    url: AdminUrlOption = None,
) -> None:
    """Let a policy decide for some requests."""
    client = AdminClient(url, settings_file)
    _show(client.post(paths.CANARY, percent=percent, by=by.value, why=why, **_sent(policy)), as_json=as_json)


def report_canary(
    records: RecordsOption = None, as_json: JsonOption = False, settings_file: SettingsOption = None
) -> None:
    """Compare how requests fared under each version, by this machine's records."""
    found = fared(read_records(_folder(records, settings_file)))
    if as_json:
        say_json([one.as_json() for one in found])
    else:
        _say_fared(found)
    end(found=not found)


def promote_canary(
    why: WhyOption = "", as_json: JsonOption = False, settings_file: SettingsOption = None, url: AdminUrlOption = None
) -> None:
    """Put the canary in force for all requests."""
    _show(AdminClient(url, settings_file).post(paths.CANARY_PROMOTE, why=why), as_json=as_json)


def abort_canary(
    why: WhyOption = "", as_json: JsonOption = False, settings_file: SettingsOption = None, url: AdminUrlOption = None
) -> None:
    """Have the stable policy decide for all requests again."""
    _show(AdminClient(url, settings_file).post(paths.CANARY_END, why=why), as_json=as_json)


def start_shadow(
    policy: CandidateArgument,
    percent: Annotated[float, typer.Option("--percent", min=0.01, max=100, help="Of requests.")] = 100.0,
    why: WhyOption = "",
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
    url: AdminUrlOption = None,
) -> None:
    """Ask a policy what it would decide for each request, and never act on it."""
    client = AdminClient(url, settings_file)
    _show(client.post(paths.SHADOW, percent=percent, why=why, **_sent(policy)), as_json=as_json)


def report_shadow(
    records: RecordsOption = None, as_json: JsonOption = False, settings_file: SettingsOption = None
) -> None:
    """Show what the shadow would have changed, by this machine's records. Fails where it would have been looser."""
    found = shadowed(read_records(_folder(records, settings_file)))
    if as_json:
        say_json([one.as_json() for one in found])
    else:
        _say_shadowed(found)
    end(found=any(one.looser for one in found))


def stop_shadow(
    why: WhyOption = "", as_json: JsonOption = False, settings_file: SettingsOption = None, url: AdminUrlOption = None
) -> None:
    """Ask the shadow no more."""
    _show(AdminClient(url, settings_file).post(paths.SHADOW_END, why=why), as_json=as_json)


def _say_fared(found: list[Fared]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("version", "policy", "arm", "requests", "ok", "answered by", "median to commit"):
        table.add_column(heading)
    for one in found:
        ok = one.outcomes["ok"] / one.requests
        shares = ", ".join(f"{name} {count / one.requests:.0%}" for name, count in one.targets.most_common())
        median = "" if one.median_commit_ms is None else f"{one.median_commit_ms:.0f} ms"
        table.add_row(str(one.version), one.name, one.arm, str(one.requests), f"{ok:.1%}", shares, median)
    Console(highlight=False).print(table)


def _say_shadowed(found: list[Shadowed]) -> None:
    for one in found:
        typer.echo(f"{one.name}, version {one.version}: asked of {one.asked} of {one.requests} requests")
        for (was, would), count in one.moved.most_common():
            typer.echo(f"  {count} would be asked of {would} first instead of {was}")
        for target, count in one.looser.most_common():
            typer.secho(f"  looser: {target} might have answered {count} that it might not", fg=typer.colors.YELLOW)
        for target, count in one.stricter.most_common():
            typer.echo(f"  stricter: {target} might not have answered {count} that it might")
        if one.inexact:
            typer.echo(f"  {one.inexact} were decided by bounds on their tokens, which may be stricter")
    if not found:
        typer.echo("no shadow has been asked of any recorded request")


def _group(text: str, **commands: Any) -> typer.Typer:
    group = typer.Typer(help=text, no_args_is_help=True)
    for name, command in commands.items():
        group.command(name)(command)
    return group


def canary_commands() -> typer.Typer:
    """The commands of the canary."""
    text = "Try a policy on some tenants or conversations."
    return _group(text, start=start_canary, report=report_canary, promote=promote_canary, abort=abort_canary)


def shadow_commands() -> typer.Typer:
    """The commands of the shadow."""
    return _group("Try a policy on nobody.", start=start_shadow, report=report_shadow, stop=stop_shadow)

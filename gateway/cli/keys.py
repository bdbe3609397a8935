"""`tidegate keys`: who may call. A running gateway takes up every change within a second."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from gateway.access.key_file import KeyFile, KeyFileUnusable, StoredKey
from gateway.allowance import Allowance
from gateway.cli.options import JsonOption, SettingsOption, fail, settings_or_fail
from gateway.cli.policy.common import say_json
from gateway.principal import Role
from gateway.settings import Settings
from routing_policies.policy.validation import first_fault

app = typer.Typer(help="Make, list and revoke callers' keys.", no_args_is_help=True)

_SECRET_BYTES = 36
_AGE = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_UNIT = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHOWN_LIMITS = {
    "concurrent_requests": "at once",
    "requests_per_minute": "requests/min",
    "tokens_per_minute": "tokens/min",
    "tokens_per_day": "tokens/day",
}

_Tenant = Annotated[str, typer.Option(help="Whom its requests count for.")]
_Id = Annotated[str | None, typer.Option("--id", help="Its public part; one is made up otherwise.")]
_Expires = Annotated[
    str | None, typer.Option(help="When it ends: 90d, 12h, 30m, 2w from now, or a time such as 2027-01-31T12:00Z.")
]
_Roles = Annotated[
    list[str] | None, typer.Option(help="inference (the default), operator, auditor; or one that a policy reads.")
]
_AtOnce = Annotated[int | None, typer.Option(help="Most requests at once.")]
_Requests = Annotated[int | None, typer.Option(help="Most requests a minute.")]
_TokensAMinute = Annotated[int | None, typer.Option(help="Most tokens a minute, prompts and answers.")]
_TokensADay = Annotated[int | None, typer.Option(help="Most tokens a day, prompts and answers.")]
_Class = Annotated[
    str | None, typer.Option(help="What everything sent with it is labelled at least, such as confidential.")
]
_Tags = Annotated[list[str] | None, typer.Option(help="A tag that everything sent with it has.")]
_Residency = Annotated[str, typer.Option(help="For policies that read `tenant.residency`.")]
_May = Annotated[list[str] | None, typer.Option(help="What it may ask for beside answers: finish, defer.")]


@app.command()
def create(  # noqa: PLR0913, PLR0917  # an option for each field of a key
    tenant: _Tenant,
    key_id: _Id = None,
    expires: _Expires = None,
    role: _Roles = None,
    concurrent_requests: _AtOnce = None,
    requests_per_minute: _Requests = None,
    tokens_per_minute: _TokensAMinute = None,
    tokens_per_day: _TokensADay = None,
    data_class: _Class = None,
    data_tag: _Tags = None,
    residency: _Residency = "",
    may: _May = None,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Make a key and print it, this once: only a digest of its secret is kept."""
    settings = settings_or_fail(settings_file)
    now = _now()
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    values = {
        "id": key_id or f"tgk_{secrets.token_hex(6)}",
        "secret_sha256": hashlib.sha256(secret.encode()).hexdigest(),
        "tenant": tenant,
        "expires_at": None if expires is None else _moment(expires, now),
        "roles": role or [Role.INFERENCE.value],
        "concurrent_requests": concurrent_requests,
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "tokens_per_day": tokens_per_day,
        "data_class": data_class,
        "data_tags": data_tag or [],
        "residency": residency,
        "may": may or [],
        "created_at": now,
    }
    _say_made(_kept(settings, values), secret, settings, as_json=as_json)


@app.command("list")
def list_(as_json: JsonOption = False, settings_file: SettingsOption = None) -> None:
    """List the keys, also those that are expired or revoked."""
    settings = settings_or_fail(settings_file)
    now = _now()
    try:
        keys = _file(settings).load()
    except KeyFileUnusable as exc:
        fail(f"{exc}.")
    if as_json:
        say_json({"keys": [_shown(key, now) for key in keys]})
        return
    if not keys:
        typer.echo("There are no keys here. `tidegate keys create --tenant NAME` makes one.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("id", "tenant", "roles", "status", "expires", "limits"):
        table.add_column(heading, overflow="fold")
    for key in keys:
        shown = _shown(key, now)
        limits = ", ".join(f"{count} {_SHOWN_LIMITS[name]}" for name, count in shown["limits"].items())
        table.add_row(key.id, key.tenant, ", ".join(key.roles), shown["status"], shown["expires_at"] or "", limits)
    Console(highlight=False, width=None).print(table)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Of the key, as `list` shows it.")],
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Have a key hold no more, for good. Requests that run already run to their end."""
    settings = settings_or_fail(settings_file)
    try:
        revoked = _file(settings).revoke(key_id, _now())
    except KeyError:
        written = any(key.id == key_id for key in settings.auth.keys)
        where = "It stands in the settings, under `auth.keys`: take it out there." if written else "See `list`."
        fail(f"There is no key {key_id} to revoke. {where}")
    except (KeyFileUnusable, OSError) as exc:
        fail(_in_words(exc))
    if as_json:
        say_json(_shown(revoked, _now()))
    else:
        typer.echo(f"{key_id} is revoked; a running gateway refuses it within a second.")


def _kept(settings: Settings, values: dict[str, Any]) -> StoredKey:
    """Keep a new key, or end the command with what is wrong."""
    if any(key.id == values["id"] for key in settings.auth.keys):
        fail(f"There is a key {values['id']} in the settings already: choose another --id.")
    try:
        key = StoredKey(**values)
    except ValidationError as exc:
        fail(f"{first_fault(exc, StoredKey)}.")
    try:
        _file(settings).add(key)
    except (ValueError, OSError) as exc:
        fail(_in_words(exc))
    return key


def _say_made(key: StoredKey, secret: str, settings: Settings, *, as_json: bool) -> None:
    if as_json:
        say_json({"key": f"{key.id}.{secret}", **_shown(key, _now())})
    else:
        # Alone on standard output, for `key=$(tidegate keys create ...)`.
        typer.echo(f"{key.id}.{secret}")
    until = "" if key.expires_at is None else f" It holds until {_told(key.expires_at)}."
    typer.echo(f"This is the whole key of {key.tenant}, shown this once.{until}", err=True)
    if not settings.auth.is_promised and len(_file(settings).load()) == 1:
        typer.echo("From now on every caller of this gateway needs a key.", err=True)


def _shown(key: StoredKey, now: datetime) -> dict[str, Any]:
    """What is shown of a key: nothing of its secret, the digest neither."""
    limits = {name: value for name in Allowance.model_fields if (value := getattr(key, name)) is not None}
    return {
        "id": key.id,
        "tenant": key.tenant,
        "roles": list(key.roles),
        "status": key.status(now),
        "created_at": _told(key.created_at),
        "expires_at": None if key.expires_at is None else _told(key.expires_at),
        "revoked_at": None if key.revoked_at is None else _told(key.revoked_at),
        "data_class": key.data_class,
        "data_tags": list(key.data_tags),
        "residency": key.residency,
        "may": list(key.may),
        "limits": limits,
    }


def _moment(text: str, now: datetime) -> datetime:
    """Read when a key ends, or end the command."""
    age = _AGE.fullmatch(text)
    try:
        if age is not None:
            return now + timedelta(**{_UNIT[age[2]]: int(age[1])})
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        fail(f"--expires {text}: say 90d, 12h, 30m or 2w, or a time such as 2027-01-31T12:00Z.")
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    if found <= now:
        fail(f"--expires {text}: that has passed.")
    return found


def _file(settings: Settings) -> KeyFile:
    return KeyFile(Path(settings.folder.caller_keys))


def _now() -> datetime:
    return datetime.fromtimestamp(int(time.time()), UTC)


def _told(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _in_words(fault: ValueError | OSError) -> str:
    return f"The file of keys cannot be written: {fault.strerror}." if isinstance(fault, OSError) else f"{fault}."

"""Options that several commands share, and how a command says that it failed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gateway.settings import Listen, Settings
from gateway.settings_file import SettingsError, load_settings

SettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        envvar="TIDEGATE_SETTINGS",
        help="Settings file; without it, ./tidegate.yaml where there is one, else the defaults.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
UrlOption = Annotated[str | None, typer.Option("--url", help="Where the gateway listens, if not as the settings say.")]


def settings_or_fail(path: Path | None) -> Settings:
    """Load the settings, or end the command with what is wrong in them."""
    try:
        return load_settings(path)
    except SettingsError as exc:
        fail(str(exc))


def base_url(url: str | None, settings_file: Path | None) -> str:
    """Where the gateway listens."""
    if url is not None:
        return (url if "://" in url else f"http://{url}").rstrip("/").removesuffix("/v1")
    return listening_at(settings_or_fail(settings_file).listen)


def listening_at(listen: Listen) -> str:
    """The URL of an address of this gateway, as this machine reaches it."""
    host = "127.0.0.1" if listen.host in {"0.0.0.0", "::"} else listen.host  # noqa: S104  # compared, not bound
    return f"http://[{host}]:{listen.port}" if ":" in host else f"http://{host}:{listen.port}"


def fail(message: str) -> NoReturn:
    """Print one line to standard error and end with status 1."""
    typer.secho(message, fg=typer.colors.RED, err=True)
    raise typer.Exit(1)

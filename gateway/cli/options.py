"""Options that several commands share, and how a command says that it failed."""

from __future__ import annotations

import os
import ssl
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
_CLIENT_CERTIFICATE, _CLIENT_KEY = "TIDEGATE_CLIENT_CERTIFICATE", "TIDEGATE_CLIENT_KEY"
UrlOption = Annotated[str | None, typer.Option("--url", help="Where the gateway listens, if not as the settings say.")]


def settings_or_fail(path: Path | None) -> Settings:
    """Load the settings, or end the command with what is wrong in them."""
    try:
        return load_settings(path)
    except SettingsError as exc:
        fail(str(exc))


def trust(url: str | None, settings_file: Path | None) -> ssl.SSLContext | bool:
    """What certificates are trusted at `base_url`."""
    if url is not None and not url.startswith("https:"):
        return True
    listen = None if url is not None else settings_or_fail(settings_file).listen
    return True if listen is not None and listen.tls is None else trust_in(listen)


def base_url(url: str | None, settings_file: Path | None) -> str:
    """Where the gateway listens."""
    if url is not None:
        return (url if "://" in url else f"http://{url}").rstrip("/").removesuffix("/v1")
    return listening_at(settings_or_fail(settings_file).listen)


def listening_at(listen: Listen) -> str:
    """The URL of an address of this gateway, as this machine reaches it."""
    host = "127.0.0.1" if listen.host in {"0.0.0.0", "::"} else listen.host  # noqa: S104  # compared, not bound
    scheme = "http" if listen.tls is None else "https"
    return f"{scheme}://[{host}]:{listen.port}" if ":" in host else f"{scheme}://{host}:{listen.port}"


def can_show_a_certificate() -> bool:
    """Whether commands have a certificate of a client to show."""
    return _CLIENT_CERTIFICATE in os.environ


def trust_in(listen: Listen | None) -> ssl.SSLContext:
    """What a command trusts: an address of the settings by the very certificate they name, others by the system's.

    It shows the certificate of `TIDEGATE_CLIENT_CERTIFICATE` and `TIDEGATE_CLIENT_KEY`, where they are set.
    """
    context = ssl.create_default_context()
    if listen is not None and listen.tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # It is pinned, so the name that this machine is reached by need not be in it, nor its authority be known.
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        if listen is not None and listen.tls is not None:
            context.load_verify_locations(listen.tls.certificate_file)
        shown, key = (os.environ.get(name) for name in (_CLIENT_CERTIFICATE, _CLIENT_KEY))
        if shown is not None:
            context.load_cert_chain(shown, key)
    except OSError as exc:
        fail(f"A certificate cannot be used: {exc.strerror or type(exc).__name__}.")
    return context


def fail(message: str) -> NoReturn:
    """Print one line to standard error and end with status 1."""
    typer.secho(message, fg=typer.colors.RED, err=True)
    raise typer.Exit(1)

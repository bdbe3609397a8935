"""Asking the admin listener of a running gateway."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from gateway.cli.options import fail, listening_at, settings_or_fail, trust_in
from gateway.cli.question import refuse, unreachable

AdminUrlOption = Annotated[
    str | None, typer.Option("--admin-url", help="Where the admin listener is, if not as the settings say.")
]
WhyOption = Annotated[str, typer.Option("--why", help="The reason, for the journal.")]
_KEY = "TIDEGATE_ADMIN_KEY"
# A proof may take seconds.
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)


class AdminClient:
    """Calls the gateway; whatever it refuses ends the command."""

    def __init__(self, url: str | None, settings_file: Path | None) -> None:
        """Find the listener; `TIDEGATE_ADMIN_KEY` holds the key, where one is needed."""
        listen = None if url is not None else settings_or_fail(settings_file).admin
        self._url = listening_at(listen) if listen is not None else str(url).rstrip("/")
        self._trust = trust_in(listen) if self._url.startswith("https:") else True
        key = os.environ.get(_KEY)
        self._headers = {"authorization": f"Bearer {key}"} if key else {}

    def get(self, path: str) -> dict[str, Any]:
        """Look at something."""
        return self._ask("GET", path, None)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """Change something."""
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        try:
            response = httpx.request(
                method,
                self._url + path,
                json=body,
                headers=self._headers,
                trust_env=False,
                timeout=_TIMEOUT,
                verify=self._trust,
            )
        except httpx.TransportError as exc:
            fail(unreachable(self._url, exc))
        refuse(response)
        found: dict[str, Any] = response.json()
        return found


def say_change(change: dict[str, Any]) -> None:
    """Tell what became of a policy, and in what it is looser."""
    words = {
        "in_force": "is in force",
        "canary": "is on trial as the canary",
        "shadow": "is on trial as the shadow",
        "unchanged": "is in force already",
        "held": "is looser than the one in force, and waits for",
        "ended": "",
    }
    if change["became"] == "ended":
        typer.echo("ended")
        return
    for warning in change["warnings"]:
        typer.echo(f"warning: {warning}")
    for one in change["looser"]:
        typer.secho(f"looser: {one['words']}", fg=typer.colors.YELLOW)
    waits = f" {in_words(change)}: `tidegate policy approve`" if change["became"] == "held" else ""
    typer.echo(f"version {change['version']} {words[change['became']]}{waits}")


def in_words(waiting: dict[str, Any]) -> str:
    """Who must sign yet, and who has."""
    missing = waiting["missing"]
    signatures = "the signature of 1 more person" if missing == 1 else f"signatures of {missing} people"
    return signatures + (f", signed by {', '.join(waiting['signed_by'])}" if waiting["signed_by"] else "")

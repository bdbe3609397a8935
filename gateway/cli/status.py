"""`tidegate status`: how the running gateway, its targets and its policy stand, followed live in a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from gateway.admin import paths
from gateway.cli.options import JsonOption, SettingsOption
from gateway.cli.policy.admin_client import AdminClient, AdminUrlOption
from gateway.cli.policy.common import say_json
from gateway.cli.status_screen import Look, screen


def status(
    once: Annotated[bool, typer.Option("--once", help="Show it once, also in a terminal.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between looks.")] = 1.0,
    as_json: JsonOption = False,
    admin_url: AdminUrlOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Show what runs, what can answer, by which policy, and how fast. Ctrl-C ends it; nothing is changed."""
    client = AdminClient(admin_url, settings_file)

    def look() -> Look:
        return Look(client.get(paths.STATUS), time.monotonic())

    console = Console(highlight=False)
    now = look()
    if as_json:
        say_json(dict(now.status))
    elif once or not console.is_terminal:
        console.print(screen(now))
    else:
        _follow(console, now, look, every)


def _follow(console: Console, now: Look, look: Callable[[], Look], every: float) -> None:
    try:
        with Live(screen(now), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                before, now = now, look()
                live.update(screen(now, before), refresh=True)
    except KeyboardInterrupt:
        return

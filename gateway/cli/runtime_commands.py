"""`tidegate edge serve` and `tidegate cloud serve`: one runtime alone, for systemd or Kubernetes to keep running."""

from __future__ import annotations

import os
from collections.abc import Mapping

import typer

from gateway.cli.options import SettingsOption, fail, settings_or_fail
from gateway.cli.runtimes import cloud_argv, edge_argv, edge_environment

edge = typer.Typer(help="The edge runtime.", no_args_is_help=True)
cloud = typer.Typer(help="The cloud stand-in.", no_args_is_help=True)


@edge.callback()
def _edge() -> None:
    pass


@cloud.callback()
def _cloud() -> None:
    pass


@edge.command(name="serve")
def serve_edge(settings_file: SettingsOption = None) -> None:
    """Serve the edge model on its socket."""
    _become(edge_argv(settings_or_fail(settings_file)), edge_environment(os.environ))


@cloud.command(name="serve")
def serve_cloud(settings_file: SettingsOption = None) -> None:
    """Serve the cloud stand-in on the port that the target `cloud` names."""
    settings = settings_or_fail(settings_file)
    if settings.stand_in_port is None:
        fail("The target `cloud` is not at 127.0.0.1 with protocol `tidegate`, so there is no stand-in to serve.")
    _become(cloud_argv(settings, settings.stand_in_port), os.environ)


def _become(argv: list[str], environment: Mapping[str, str]) -> None:
    os.execve(argv[0], argv, environment)  # noqa: S606  # our own interpreter, no shell

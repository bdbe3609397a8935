"""`tidegate bench` and `tidegate models fit`: what this machine can do, measured by the edge runtime's own program."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from gateway.cli.options import JsonOption, SettingsOption, settings_or_fail
from gateway.cli.runtimes import edge_environment

ModelArgument = Annotated[str | None, typer.Argument(metavar="[MODEL]", help="Its folder's name; else the edge's.")]


def bench(model: ModelArgument = None, as_json: JsonOption = False, settings_file: SettingsOption = None) -> None:
    """Measure how fast a model is here, beside the ceiling that this machine's memory sets."""
    settings = settings_or_fail(settings_file)
    threads = settings.edge.threads
    options = ["--model-dir", str(settings.folder.models / (model or settings.edge.model))]
    options += [] if threads is None else ["--threads", str(threads)]
    _become("bench", *options, "--profile", str(settings.folder.device_profile), *(["--json"] if as_json else []))


def fit(
    memory_gb: Annotated[float | None, typer.Option("--memory-gb", help="Instead of what is free now.")] = None,
    context: Annotated[
        int | None, typer.Option("--context", help="Tokens of a slot; else as the settings say.")
    ] = None,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Say which known models fit in this machine's memory, with how many slots, and how fast they would be."""
    settings = settings_or_fail(settings_file)
    options = ["--context", str(settings.edge.context if context is None else context)]
    options += [] if memory_gb is None else ["--memory-gb", str(memory_gb)]
    _become("fit", *options, "--profile", str(settings.folder.device_profile), *(["--json"] if as_json else []))


def _become(*arguments: str) -> NoReturn:
    argv = [sys.executable, "-m", "edge_runtime.measuring", *arguments]
    # Started as the edge runtime is, so that what is measured is what is served.
    os.execve(argv[0], argv, edge_environment(os.environ))  # noqa: S606  # our own interpreter, no shell

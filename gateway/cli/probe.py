"""`tidegate models probe`: what execution providers do with a model here, by the edge runtime's own program."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from gateway.cli.options import JsonOption, SettingsOption, fail, settings_or_fail
from gateway.cli.runtimes import edge_environment, provider_options


def probe(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Its folder's name; else the one that embeds.")
    ] = None,
    provider: Annotated[
        list[str] | None, typer.Option("--provider", help="Try this one, such as `ggml`; else all that are here.")
    ] = None,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> NoReturn:
    """Try execution providers with a model, each in a process of its own, and keep what was found."""
    settings = settings_or_fail(settings_file)
    name = model or settings.edge.embedding_model
    if name is None:
        fail("Name a model: the settings serve none that embeds.")
    threads = settings.edge.threads
    argv = [
        *(sys.executable, "-m", "edge_runtime.providers", "probe", "--model-dir", str(settings.folder.models / name)),
        *(option for each in provider or () for option in ("--provider", each)),
        *([] if threads is None else ["--threads", str(threads)]),
        *(["--json"] if as_json else []),
        *provider_options(settings),
    ]
    # Started as the edge runtime is, so that what is measured is what is served.
    os.execve(argv[0], argv, edge_environment(os.environ))  # noqa: S606  # our own interpreter, no shell

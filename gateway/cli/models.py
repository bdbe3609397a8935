"""`tidegate models`: the models on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gateway.cli import model_store
from gateway.cli.options import SettingsOption, settings_or_fail
from gateway.cli.probe import probe

app = typer.Typer(help="The models on this machine.", no_args_is_help=True)
app.add_typer(model_store.app)
app.add_typer(model_store.keys, name="keys")
app.command()(probe)


@app.command()
def build(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Models of tensors, such as silero-vad.")
    ] = None,
    wheel: Annotated[
        Path | None, typer.Option("--wheel", help="The wheel that they come from, instead of fetching it.")
    ] = None,
    settings_file: SettingsOption = None,
) -> None:
    """Make the default models, or models of tensors by name; needs the `build` extra, and the network once."""
    models_dir = settings_or_fail(settings_file).folder.models
    if names:
        given = [] if wheel is None else [f"--wheel={wheel}"]
        _become_the_build("tensors", *given, "--models-dir", str(models_dir), "--", *names)
    _become_the_build("default", "--models-dir", str(models_dir))


@app.command(name="import")
def import_model(
    source: Annotated[Path, typer.Argument(metavar="FILE.gguf|DIR", help="A GGUF file or a Hugging Face folder.")],
    name: Annotated[str | None, typer.Option("--name", help="What it is called; else the source's own name.")] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", help="Of a folder's weights: int4, int8 (the default) or fp16.")
    ] = None,
    lora: Annotated[Path | None, typer.Option("--lora", help="An adapter to merge into a folder's weights.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Import it even if it answers too differently.")] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Import a GGUF file without loss, or a Hugging Face folder, quantized; needs the `build` extra."""
    models_dir = settings_or_fail(settings_file).folder.models
    given = {"--name": name, "--precision": precision, "--lora": lora}
    options = [f"{option}={value}" for option, value in given.items() if value is not None]
    options += ["--force"] if force else []
    _become_the_build("import", *options, "--models-dir", str(models_dir), "--", str(source))


def _become_the_build(*arguments: str) -> NoReturn:
    """Make models in place of this process."""
    argv = [sys.executable, "-m", "edge_runtime.build", *arguments]
    os.execv(argv[0], argv)  # noqa: S606  # our own interpreter, no shell

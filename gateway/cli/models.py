"""`tidegate models`: the models on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import orjson
import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import JsonOption, SettingsOption, settings_or_fail

app = typer.Typer(help="The models on this machine.", no_args_is_help=True)


@app.command()
def build(settings_file: SettingsOption = None) -> None:
    """Make the default models; needs the `build` extra, and the network once."""
    models_dir = settings_or_fail(settings_file).folder.models
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


@app.command(name="list")
def list_models(as_json: JsonOption = False, settings_file: SettingsOption = None) -> None:
    """List the models that are complete."""
    models_dir = settings_or_fail(settings_file).folder.models
    manifests = [orjson.loads(path.read_bytes()) for path in sorted(models_dir.glob("*/manifest.json"))]
    if as_json:
        typer.echo(orjson.dumps(manifests, option=orjson.OPT_INDENT_2).decode())
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("name", "format", "window", "MB", "digest"):
        table.add_column(column)
    for manifest in manifests:
        size = sum(file["size"] for file in manifest["files"].values()) / 1e6
        row = (manifest["name"], manifest["format"], str(manifest["window"]), f"{size:.0f}", manifest["digest"][:12])
        table.add_row(*row)
    Console(highlight=False).print(table)


def _become_the_build(*arguments: str) -> NoReturn:
    """Make models in place of this process."""
    argv = [sys.executable, "-m", "edge_runtime.build", *arguments]
    os.execv(argv[0], argv)  # noqa: S606  # our own interpreter, no shell

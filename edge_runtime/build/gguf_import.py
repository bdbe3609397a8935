"""`import FILE.gguf`: a GGUF file that a person has becomes a model among the others."""

from __future__ import annotations

from pathlib import Path

from edge_runtime.build import imports
from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.folder import HOW, write_folder
from edge_runtime.build.imports import Import
from edge_runtime.build.progress import Steps
from edge_runtime.build.publishing import Recipe
from edge_runtime.models.staging import Staging
from runtime_server.model_manifest import hash_file

_LARGEST_GROWTH = 2.2  # float16 is written as float32
_SPARE_BYTES = 256 << 20


def import_gguf(gguf: Path, name: str | None, models: Path, steps: Steps, *, force: bool) -> None:
    """Make a model folder of a GGUF file.

    Args:
        gguf: The file.
        name: What the folder is called and clients ask for; without it, the file's own name in lower case.
        models: The folder of models.
        steps: Where progress is shown.
        force: Let the model in even if its figures say that it lost too much; the manifest says so then.

    Raises:
        BuildError: The message names the way on.
    """
    if not gguf.is_file():
        raise NotImportable(f"There is no file {gguf}.")
    name = imports.model_name(gguf, name)

    def prepare(_: Staging) -> Import:
        with steps.step(f"Reading {gguf.name}"):
            sha256 = hash_file(gguf).sha256
        recipe = Recipe(
            name=name,
            public_model=name,
            format="onnx-genai",
            source={"file": gguf.name, "gguf_sha256": sha256, "how": HOW},
            tools=("gguf", "onnx", "onnxruntime", "tokenizers"),
        )
        space = int(gguf.stat().st_size * _LARGEST_GROWTH) + _SPARE_BYTES
        return Import(recipe, space, "Carrying its blocks over", lambda folder: write_folder(gguf, folder))

    imports.run(models, steps, prepare, force=force)

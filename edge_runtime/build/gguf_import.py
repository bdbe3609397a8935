"""`import`: a GGUF file that a person has becomes a model among the others."""

from __future__ import annotations

import re
from pathlib import Path

from edge_runtime.build import gate
from edge_runtime.build.errors import GateFailed, NameTaken, NotImportable
from edge_runtime.build.gguf.folder import HOW, write_folder
from edge_runtime.build.progress import Steps
from edge_runtime.build.publishing import Recipe, is_built, publish
from edge_runtime.build.staging import require_space, staging
from runtime_server.model_manifest import GateFigures, hash_file

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
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
    name = _name(gguf, name)
    with staging(models, when_busy=lambda: steps.say("Another build is running here; waiting for it to end.")) as work:
        with steps.step(f"Reading {gguf.name}"):
            sha256 = hash_file(gguf).sha256
        recipe = Recipe(
            name=name,
            public_model=name,
            format="onnx-genai",
            source={"file": gguf.name, "gguf_sha256": sha256, "how": HOW},
            tools=("gguf", "onnx", "onnxruntime", "tokenizers"),
        )
        if is_built(models, recipe):
            steps.say(f"This very file is imported already: {models / name}")
            return
        if (models / name).exists():
            raise NameTaken(f"There is another model in {models / name}. Choose a name with --name, or remove it.")
        require_space(models, int(gguf.stat().st_size * _LARGEST_GROWTH) + _SPARE_BYTES)
        folder = work.room(name)
        with steps.step("Carrying its blocks over"):
            window = write_folder(gguf, folder)
        with steps.step("Measuring what its decoding costs"):
            figures = _pass(gate.measure(folder), force=force)
            publish(work, recipe, window, figures)
    steps.say(
        f"Imported: {models / name}\nMean KL {figures.mean_kl}, top-1 agreement {figures.top1_agreement}, perplexity "
        f"{figures.perplexity} (exact {figures.perplexity_exact}), greedy agreement {figures.greedy_agreement}."
    )


def _pass(figures: GateFigures, *, force: bool) -> GateFigures:
    try:
        gate.require(figures)
    except GateFailed as error:
        if not force:
            raise GateFailed(f"{error} With --force it is imported all the same.") from None
        return figures.model_copy(update={"forced": True})
    return figures


def _name(gguf: Path, asked: str | None) -> str:
    name = gguf.stem.lower() if asked is None else asked
    if asked is None:
        name = re.sub(r"[^a-z0-9._-]+", "-", name).lstrip("._-")
    if not _NAME.fullmatch(name):
        raise NameTaken(
            f"`{name}` cannot be a model's name: lower-case letters, digits, `.`, `_` and `-`, at most 100."
        )
    return name

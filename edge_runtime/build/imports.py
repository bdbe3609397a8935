"""What every import does, whatever it reads: name, room on the disk, graphs, gate, manifest, one rename."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.build import gate
from edge_runtime.build.errors import GateFailed, NameRefused, NotImportable
from edge_runtime.build.progress import Steps
from edge_runtime.build.publishing import Recipe, find_built, publish
from edge_runtime.models.names import is_model_name, name_from
from edge_runtime.models.staging import Staging, require_space, staging
from edge_runtime.models.store import ModelStore
from runtime_server.chat_model import load_chat_model
from runtime_server.model_folder import ModelFolderUnusable
from runtime_server.model_manifest import GateFigures, ModelDamaged
from runtime_server.model_signature import Untrusted


@dataclass(frozen=True, slots=True)
class Import:
    """One import, ready to be done.

    Attributes:
        recipe: What the finished folder is called and says of its source.
        space_bytes: Most that the disk must have free.
        doing: What a person is told while `write` runs.
        write: Fills an empty folder with everything but the manifest, and returns the model's window.
        write_reference: Fills an empty folder with the float32 model that the gate compares with, where the model's own
            prefill is not what it was made from.
    """

    recipe: Recipe
    space_bytes: int
    doing: str
    write: Callable[[Path], int]
    write_reference: Callable[[Path], int] | None = None


def model_name(path: Path, asked: str | None) -> str:
    """Return what the model of a file or folder is called: `asked`, or the file's own name in lower case.

    Raises:
        NameRefused: It cannot be a model's name.
    """
    name = asked
    if name is None:
        name = name_from(path.absolute().name if path.is_dir() else path.stem)
    if not is_model_name(name):
        raise NameRefused(
            f"`{name}` cannot be a model's name: lower-case letters, digits, `.`, `_` and `-`, at most 100."
        )
    return name


def run(models: Path, steps: Steps, prepare: Callable[[Staging], Import], *, force: bool) -> None:
    """Do an import, alone among all builds in these models; under a name that is taken it becomes a new version.

    Args:
        models: The folder of models.
        steps: Where progress is shown.
        prepare: Reads the source, once it is this build's turn.
        force: Let the model in even if its figures say that it lost too much; the manifest says so then.

    Raises:
        BuildError: The message names the way on.
    """
    with staging(models, when_busy=lambda: steps.say("Another build is running here; waiting for it to end.")) as work:
        asked = prepare(work)
        recipe = asked.recipe
        store = ModelStore(models)
        before, built = store.active(recipe.name), find_built(store, recipe)
        if built is not None:
            try:
                store.activate(built)
            except (ModelDamaged, Untrusted):
                steps.say(f"{built.reference} is damaged, or signed by nobody who is trusted here; it is made again.")
            else:
                steps.say(f"This very model is imported already: {built.reference}")
                return
        require_space(models, asked.space_bytes)
        with steps.step(asked.doing):
            window = asked.write(work.room(recipe.name))
            _require_conversation(work.folder / recipe.name, recipe.public_model)
        figures = _measure(asked, work, steps, force=force)
        publish(work, recipe, window, figures)
    steps.say(
        f"Imported: {models / recipe.name}\nMean KL {figures.mean_kl}, top-1 agreement {figures.top1_agreement}, "
        f"perplexity {figures.perplexity} (exact {figures.perplexity_exact}), "
        f"greedy agreement {figures.greedy_agreement}."
    )
    if before is not None:
        steps.say(f"`tidegate models rollback {recipe.name}` goes back to {before.reference}.")


def _require_conversation(folder: Path, name: str) -> None:
    try:
        load_chat_model(folder, name)
    except ModelFolderUnusable as error:
        raise NotImportable(f"Nobody could talk to this model. {error}") from None


def _measure(asked: Import, work: Staging, steps: Steps, *, force: bool) -> GateFigures:
    reference = None
    if asked.write_reference is not None:
        reference = work.room("reference")
        with steps.step("Writing the float32 model to compare with"):
            asked.write_reference(reference)
    with steps.step("Measuring what it lost"):
        figures = gate.measure(work.folder / asked.recipe.name, reference)
    try:
        gate.require(figures)
    except GateFailed as error:
        if not force:
            raise GateFailed(f"{error} With --force it is imported all the same.") from None
        return figures.model_copy(update={"forced": True})
    return figures

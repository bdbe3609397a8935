"""Makes a model of what was pulled, where that is no model yet, with the importers of `edge_runtime.build`.

They publish what they make, and sign it as made here. What they read came from elsewhere, though, so who vouches for it
is the pull's to say: its model is made in a store of its own, and taken out of it unsigned.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from edge_runtime.models.errors import ContentRefused, SourceInvalid
from edge_runtime.models.staging import Staging
from edge_runtime.models.store import ModelStore
from runtime_server.model_manifest import SIGNATURES_NAME


def import_fetched(
    work: Staging, path: Path, name: str | None, console: Console, *, precision: str | None, force: bool
) -> Path:
    """Make a model of a GGUF file or a Hugging Face folder, and return its complete folder.

    Raises:
        StoreError: It cannot be imported; the message says why.
    """
    # The importers need the extra `build`, which a machine that pulls packaged models does without.
    from edge_runtime.build.progress import Steps  # noqa: PLC0415  # needs the extra `build`
    from edge_runtime.build.publishing import require_tools  # noqa: PLC0415  # needs the extra `build`

    require_tools()
    from edge_runtime.build.gguf_import import import_gguf  # noqa: PLC0415  # needs the extra `build`
    from edge_runtime.build.huggingface.tensors import Precision  # noqa: PLC0415  # needs the extra `build`
    from edge_runtime.build.huggingface_import import import_huggingface  # noqa: PLC0415  # needs the extra `build`

    scratch = ModelStore(work.room("import") / "models")
    steps = Steps(console)
    if path.is_dir():
        chosen = Precision(precision or Precision.INT8)
        import_huggingface(path, name, scratch.root, steps, precision=chosen, force=force)
    elif precision is not None:
        raise SourceInvalid("--precision is for a Hugging Face folder; a GGUF file is imported as it is.")
    else:
        import_gguf(path, name, scratch.root, steps, force=force)
    for model in scratch.names():
        version = scratch.active(model)
        if version is not None:
            (version.folder / SIGNATURES_NAME).unlink()
            return version.folder
    raise ContentRefused(f"{path.name} did not become a model.")

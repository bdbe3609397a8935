"""A Hugging Face folder with an adapter merged into it, for tools that know no adapters."""

from __future__ import annotations

import shutil
from pathlib import Path

from safetensors.numpy import save_file

from edge_runtime.build.huggingface.lora import Adapter
from edge_runtime.build.huggingface.safetensors_folder import SafetensorsFolder


def write_merged(source: Path, adapter: Path, folder: Path) -> None:
    """Copy a model folder, its weights in float32 and merged.

    Raises:
        NotImportable: The weights cannot be read, or the adapter does not fit them.
    """
    for path in source.iterdir():
        if path.is_file() and path.suffix in (".json", ".jinja", ".txt", ".model") and "safetensors" not in path.name:
            shutil.copyfile(path, folder / path.name)
    files, merged = SafetensorsFolder(source), Adapter(adapter)
    weights = {}
    for name in files.unread():
        shape = files.shape_of(name)
        weight = files.tensor(name, *shape)
        weights[name] = merged.merge(name, weight) if len(shape) == 2 else weight
    merged.require_used()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

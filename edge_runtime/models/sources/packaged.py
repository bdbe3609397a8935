"""A model as its publisher packed it: a folder with manifest and signatures, wherever its files can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edge_runtime.models.errors import ContentRefused, SourceUnavailable
from edge_runtime.models.sources.content import require_content, require_safe_name
from observability.disk import sync
from runtime_server import model_manifest
from runtime_server.model_manifest import FILE_NAME, SIGNATURES_NAME, FileDigest, Manifest

# Puts the file of that name, of which the manifest tells what it must be, at a path.
Take = Callable[[str, FileDigest | None, Path], None]
# Looks at the folder once manifest and signatures are there, before the large files are fetched.
Look = Callable[[Path], None]


def take_packaged(folder: Path, take: Take, look: Look) -> Manifest:
    """Fill a folder with a packaged model: the manifest first, then who signed it, then what it lists.

    Raises:
        ContentRefused: A file is not what the manifest says, or not what a model is made of.
        ModelDamaged: The manifest cannot be read as one.
    """
    take(FILE_NAME, None, folder / FILE_NAME)
    require_content(folder / FILE_NAME, FILE_NAME)
    manifest = model_manifest.read_manifest(folder)
    for name in manifest.files:
        require_safe_name(name)
        if name in {FILE_NAME, SIGNATURES_NAME}:
            raise ContentRefused(f"The manifest lists {name} among the model's files, where it cannot be one.")
    try:
        take(SIGNATURES_NAME, None, folder / SIGNATURES_NAME)
    except SourceUnavailable:
        (folder / SIGNATURES_NAME).unlink(missing_ok=True)  # nobody signed it
    look(folder)
    for name, expected in manifest.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        take(name, expected, path)
        if expected.size:
            require_content(path, name)
        sync(path)
        sync(path.parent)
    for fault in model_manifest.faults(folder, manifest):
        raise ContentRefused(fault)
    sync(folder)
    return manifest

"""One version of a model, as it stands in the store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runtime_server import model_manifest
from runtime_server.model_manifest import Manifest, ModelDamaged


@dataclass(frozen=True, slots=True)
class Version:
    """A version.

    Attributes:
        model: Its model's name.
        id: sha256, hex, of its manifest.
        folder: Its own folder, not the model's link.
        active: Whether the model's name stands for it.
    """

    model: str
    id: str
    folder: Path
    active: bool

    @property
    def reference(self) -> str:
        """How a person names it."""
        return f"{self.model}@{self.id[:12]}"

    def manifest(self) -> Manifest:
        """Read its manifest.

        Raises:
            ModelMissing: There is none.
            ModelDamaged: It cannot be read, or is another than the one that this version is named by.
        """
        if model_manifest.manifest_id(self.folder) != self.id:
            raise ModelDamaged(f"The manifest in {self.folder} is not the one that was published.")
        return model_manifest.read_manifest(self.folder)

    def verify(self) -> Manifest:
        """Read every file, and return the manifest.

        Raises:
            ModelMissing: There is no manifest.
            ModelDamaged: A file is not what the manifest says.
        """
        manifest = self.manifest()
        model_manifest.verify(self.folder, manifest)
        return manifest

"""What stands between a folder and its being loaded: it is held, somebody vouches for it, and every file is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runtime_server import model_manifest
from runtime_server.model_lease import ModelLease, take_lease
from runtime_server.model_manifest import Manifest
from runtime_server.trusted_keys import TrustedKeys


@dataclass(frozen=True, slots=True)
class AdmittedModel:
    """A model that may be loaded.

    Attributes:
        lease: Keeps its folder where it is; to be released when the model is unloaded.
        manifest: What it says of itself.
    """

    lease: ModelLease
    manifest: Manifest

    @property
    def folder(self) -> Path:
        """The version's own folder."""
        return self.lease.folder


def admit(folder: Path, trusted_keys: TrustedKeys | None) -> AdmittedModel:
    """Hold the version that `folder` stands for now, and verify it.

    Args:
        folder: The model's.
        trusted_keys: One of them must have signed it; `None` does not look at signatures.

    Raises:
        ModelMissing: The folder holds no complete model.
        ModelDamaged: A file is not what the manifest says.
        Untrusted: No trusted key signed it.
        KeyUnusable: A trusted key cannot be read.
    """
    lease = take_lease(folder)
    try:
        manifest = model_manifest.read_manifest(lease.folder)
        if trusted_keys is not None:
            from runtime_server import model_signature  # noqa: PLC0415  # cryptography takes 10 MB

            model_signature.require_signed(lease.folder, trusted_keys)
        model_manifest.verify(lease.folder, manifest)
    except BaseException:
        lease.release()
        raise
    return AdmittedModel(lease, manifest)

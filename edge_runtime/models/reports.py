"""What can be told of a version, as plain values for tables and JSON."""

from __future__ import annotations

from typing import Any

from edge_runtime.models.origin import read_origin
from edge_runtime.models.store import ModelStore
from edge_runtime.models.version import Version
from runtime_server import model_manifest, model_signature
from runtime_server.model_manifest import ModelDamaged, ModelMissing
from runtime_server.model_signature import Untrusted


def describe(store: ModelStore, version: Version) -> dict[str, Any]:
    """Return what the manifest says, who signed it and where it came from; files are not read."""
    row: dict[str, Any] = {
        "model": version.model,
        "version": version.reference,
        "id": version.id,
        "active": version.active,
        "folder": str(version.folder),
        "format": None,
        "window": None,
        "bytes": None,
        "signed_by": [],
        "fault": None,
    }
    try:
        manifest = version.manifest()
        row |= {
            "format": manifest.format,
            "window": manifest.window,
            "bytes": sum(file.size for file in manifest.files.values()),
            "public_model": manifest.public_model,
            "digest": manifest.digest,
            "source": manifest.source,
            "origin": read_origin(version.folder),
            "gate": None if manifest.gate is None else manifest.gate.model_dump(),
            "created_by": manifest.created_by,
            "signed_by": model_signature.signers(version.folder, model_signature.read_keys(store.trusted)),
        }
    except (ModelDamaged, ModelMissing, Untrusted) as error:
        row["fault"] = str(error)
    return row


def verify_version(store: ModelStore, version: Version) -> dict[str, Any]:
    """Read every file; say what is wrong, and whether somebody who is trusted signed it."""
    report: dict[str, Any] = {
        "version": version.reference,
        "id": version.id,
        "active": version.active,
        "faults": [],
        "signed_by": [],
        "signature_fault": None,
    }
    try:
        report["faults"] = list(model_manifest.faults(version.folder, version.manifest()))
    except (ModelDamaged, ModelMissing) as error:
        report["faults"] = [str(error)]
        return report
    try:
        report["signed_by"] = store.vouchers(version)
    except Untrusted as error:
        report["signature_fault"] = str(error)
    return report

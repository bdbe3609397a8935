"""The bill of materials of a bundle, in CycloneDX 1.6: every wheel and every model, with its hash."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL


def bill_of_materials(bundle: Path, sums: Mapping[Path, str], version: str) -> str:
    """Write it, from the sha256 of each file."""
    bom = Bom()
    bom.metadata.component = Component(type=ComponentType.APPLICATION, name="tidegate", version=version)
    for path, digest in sums.items():
        match path.relative_to(bundle).parts:
            case ("wheels", name):
                bom.components.add(_wheel(name, digest))
            case ("models", name, "manifest.json"):
                bom.components.add(_model(name, digest))
    bom.register_dependency(bom.metadata.component, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2)


def _wheel(name: str, digest: str) -> Component:
    project, version, *_ = name.split("-")
    project = project.replace("_", "-").lower()
    return Component(
        type=ComponentType.LIBRARY,
        name=project,
        version=version,
        purl=PackageURL("pypi", name=project, version=version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )


def _model(name: str, manifest: str) -> Component:
    """A model is as its manifest says, which holds the hash of each of its files; that is its version, too."""
    return Component(
        type=ComponentType.MACHINE_LEARNING_MODEL,
        name=name,
        version=manifest[:12],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=manifest)],
    )

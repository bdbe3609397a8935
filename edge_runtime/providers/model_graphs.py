"""The graphs of a model's folder that a provider can be tried with."""

from __future__ import annotations

from pathlib import Path

from edge_runtime.embeddings import graph as embeddings
from edge_runtime.embeddings.graph import embedding_file
from edge_runtime.providers.graph_file import GraphFile
from edge_runtime.tensors import description as tensors
from edge_runtime.tensors.description import read_description
from inference_protocol.provider_policy import Work
from runtime_server import model_manifest
from runtime_server.model_lease import take_lease
from runtime_server.model_manifest import ModelUnsupported


def graphs_of(folder: Path) -> list[GraphFile]:
    """Return them, of the version that the folder stands for now.

    Raises:
        ModelMissing: The folder holds no complete model.
        ModelDamaged: A file is not what the manifest says.
        ModelUnsupported: It generates text, which the CPU alone does.
    """
    with take_lease(folder) as lease:
        manifest = model_manifest.read_manifest(lease.folder)
        model_manifest.verify(lease.folder, manifest)
        if manifest.format == embeddings.FORMAT:
            return [embedding_file(lease.folder, manifest)]
        if manifest.format == tensors.FORMAT:
            files = dict.fromkeys(version.file for version in read_description(lease.folder).versions.values())
            return [
                GraphFile(lease.folder / file, manifest.public_model, manifest.digest, Work.TENSORS) for file in files
            ]
    raise ModelUnsupported(
        f"{folder} generates text, which runs on the CPU alone: its cache of keys and values lies in the CPU's memory. "
        "Models that embed or compute tensors can be tried on other providers."
    )

"""From folders of graphs to a catalog that loads each of them when it is first asked."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from pathlib import Path

from edge_runtime.providers.graph_file import GraphFile
from edge_runtime.providers.providers import Providers
from edge_runtime.tensors.description import FORMAT, GraphVersion, TensorDescription, read_description
from edge_runtime.tensors.graph import TensorGraph, load_tensor_graph
from inference_protocol.provider_policy import Work
from inference_protocol.request import Task
from inference_protocol.runtime_state import ServedModel
from runtime_server import model_manifest
from runtime_server.model_admission import admit
from runtime_server.model_lease import take_lease
from runtime_server.model_manifest import ModelDamaged, ModelMissing, ModelUnsupported
from runtime_server.options import RuntimeOptions
from runtime_server.tensors.catalog import Catalog, CataloguedModel
from runtime_server.tensors.model import Batching
from runtime_server.tensors.service import TensorService

_PLATFORM = "onnxruntime_onnx"

_logger = logging.getLogger(__name__)


def open_catalog(
    options: RuntimeOptions, folders: Sequence[Path], providers: Providers, keep_alive_s: float | None = None
) -> Catalog:
    """Return the models of these folders.

    A model that is not there is no reason not to serve the others: nothing is told of it, and a line says so.

    Args:
        options: From the command line.
        folders: Of models.
        providers: What there is to run their graphs.
        keep_alive_s: After so long without a request each is unloaded; `None` keeps them.

    Raises:
        ModelDamaged: A manifest or a description cannot be read.
        ModelUnsupported: A folder holds something else.
    """
    found: list[CataloguedModel] = []
    for folder in folders:
        try:
            found.append(_open(folder, options, providers, keep_alive_s))
        except ModelMissing as error:
            _logger.warning("Tensors are not computed by %s. %s", folder.name, error)
    return Catalog(found)


def _open(named: Path, options: RuntimeOptions, providers: Providers, keep_alive_s: float | None) -> CataloguedModel:
    # Released with the process: a state that a client carries is of one version only.
    lease = take_lease(named)
    folder = lease.folder
    manifest = model_manifest.read_manifest(folder)
    if manifest.format != FORMAT:
        raise ModelUnsupported(f"{folder} is of the format {manifest.format}; tensors come from {FORMAT} folders.")
    description = read_description(folder)
    for version in description.versions.values():
        for name in (version.file, version.labels):
            if name is not None and name not in manifest.files:
                raise ModelDamaged(f"The description in {folder} speaks of {name}, which its manifest does not list.")

    def loaded(version: GraphVersion) -> TensorGraph:
        admitted = admit(folder, options.trusted_keys)
        try:
            names = [*version.batch_axes, *version.states, *version.states.values()]
            file = GraphFile(folder / version.file, manifest.public_model, manifest.digest, Work.TENSORS)
            return load_tensor_graph(file, names, providers)
        finally:
            admitted.lease.release()

    services = {
        name: TensorService(
            f"{manifest.public_model}/{name}",
            _batching(description, version),
            functools.partial(loaded, version),
            waiting_limit=options.waiting_limit,
            keep_alive_s=keep_alive_s,
            states=version.states,
            labels=_labels(folder, version),
        )
        for name, version in description.versions.items()
    }
    served = ServedModel(
        id=manifest.public_model, digest=manifest.digest, window=manifest.window, tasks=frozenset({Task.TENSOR})
    )
    return CataloguedModel(served, services, _PLATFORM, lease)


def _labels(folder: Path, version: GraphVersion) -> tuple[str, ...]:
    if version.labels is None:
        return ()
    try:
        # Not by `splitlines`: a label may be one of Unicode's other ends of lines.
        return tuple((folder / version.labels).read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    except (OSError, UnicodeDecodeError):
        raise ModelDamaged(f"{folder / version.labels} cannot be read.") from None


def _batching(description: TensorDescription, version: GraphVersion) -> Batching:
    return Batching(version.batch_axes, description.most_rows, description.wait_ms / 1000)

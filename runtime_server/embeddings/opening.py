"""From options to a service that will load its model: what can be known of it before that is known at the start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from inference_protocol.request import Task
from inference_protocol.runtime_state import ServedModel
from runtime_server import model_folder, model_manifest
from runtime_server.embeddings.encoder import load_encoder
from runtime_server.embeddings.model import EmbeddingModel
from runtime_server.embeddings.service import EmbeddingService
from runtime_server.model_admission import admit
from runtime_server.model_folder import ModelFolderUnusable
from runtime_server.model_lease import take_lease
from runtime_server.model_manifest import Manifest, ModelMissing
from runtime_server.options import RuntimeOptions

LoadEmbedding = Callable[[Path, Manifest], EmbeddingModel]
"""Loads the model of a folder that was verified; raises `StartRefused` where it cannot be."""

_logger = logging.getLogger(__name__)


def open_services(options: RuntimeOptions, load: LoadEmbedding) -> Mapping[str, EmbeddingService]:
    """Return the services that the options ask for, by the names that requests ask for.

    A model that is not there is no reason not to serve the others: nothing is told of it, and a line says so.

    Raises:
        ModelDamaged: Its manifest cannot be read.
        ModelFolderUnusable: Its description or tokenizer cannot be used.
    """
    if options.embedding_model_dir is None:
        return {}
    try:
        # Never released: vectors of two versions cannot be compared, so one is served to the end of the process.
        lease = take_lease(options.embedding_model_dir)
    except ModelMissing as error:
        _logger.warning("No embeddings are served. %s `tidegate models build` makes the default one.", error)
        return {}
    folder = lease.folder
    manifest = model_manifest.read_manifest(folder)
    served = ServedModel(
        id=options.embedding_model_name or manifest.public_model,
        digest=manifest.digest,
        window=manifest.window,
        tasks=frozenset({Task.EMBEDDING}),
        dimensions=dimensions_of(folder),
        tokenizer_digest=manifest.files["tokenizer.json"].sha256 if "tokenizer.json" in manifest.files else None,
    )

    def loaded() -> EmbeddingModel:
        admitted = admit(folder, options.trusted_keys)
        try:
            return load(admitted.folder, admitted.manifest)
        finally:
            admitted.lease.release()

    service = EmbeddingService(
        served,
        load_encoder(folder, manifest.window),
        loaded,
        waiting_limit=options.waiting_limit,
        keep_alive_s=options.embedding_keep_alive_s,
        hold=lease,
    )
    return {served.id: service}


def dimensions_of(folder: Path) -> int:
    """Return how long the vectors of a folder's model are.

    Raises:
        ModelFolderUnusable: Its description does not say.
    """
    found = model_folder.read_config(folder, "config.json").get("hidden_size")
    if not isinstance(found, int) or found < 1:
        raise ModelFolderUnusable(f"{folder / 'config.json'} does not say how long vectors are (`hidden_size`).")
    return found

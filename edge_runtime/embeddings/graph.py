"""A graph from token ids to vectors, as `edge_runtime/build/embedding` writes it, in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort

from edge_runtime.generation.interruption import Interruption
from edge_runtime.generation.loaded_graph import ORT_ERRORS, open_session
from edge_runtime.residency.memory import give_back_freed
from runtime_server.cpus import usable_cpus
from runtime_server.embeddings.model import EmbeddingFailed, Rows, Vectors
from runtime_server.model_manifest import Manifest, ModelUnsupported

FILE_NAME = "model.onnx"
FORMAT = "onnx-embedding"
INPUTS = ("input_ids", "attention_mask")
OUTPUT = "sentence_embedding"


class EmbeddingGraph:
    """One session. Satisfies `runtime_server.embeddings.model.EmbeddingModel`."""

    def __init__(self, session: ort.InferenceSession) -> None:
        """Run this session, of a graph with the inputs and the output that are named here."""
        self.provider: str = session.get_providers()[0]
        self._session: ort.InferenceSession | None = session
        self._interruption = Interruption()

    def run(self, rows: Rows) -> Vectors:  # noqa: D102  # see `EmbeddingModel`
        assert self._session is not None, "it is not run once it is closed"
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), np.int64)
        mask = np.zeros_like(ids)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = row
            mask[at, : len(row)] = 1
        self._interruption = Interruption()
        try:
            feeds = dict(zip(INPUTS, (ids, mask), strict=True))
            (vectors,) = self._session.run([OUTPUT], feeds, self._interruption.options())
        except ORT_ERRORS as error:
            raise EmbeddingFailed(type(error).__name__) from None
        found: Vectors = np.asarray(vectors, np.float32)
        if not np.isfinite(found).all():
            raise EmbeddingFailed("not finite")
        return found

    def interrupt(self) -> None:  # noqa: D102  # see `EmbeddingModel`
        self._interruption.set()

    def close(self) -> None:  # noqa: D102  # see `EmbeddingModel`
        self._session = None
        give_back_freed()


def load_embedding_graph(folder: Path, manifest: Manifest, *, threads: int | None = None) -> EmbeddingGraph:
    """Load a folder's graph and run it once.

    Args:
        folder: Whose files were verified.
        manifest: What it says of itself.
        threads: Of a run; `None` takes the CPUs that this process may use.

    Raises:
        ModelUnsupported: It cannot be run here, or is no such graph.
    """
    if manifest.format != FORMAT:
        raise ModelUnsupported(f"{folder} is of the format {manifest.format}; the edge embeds with {FORMAT} folders.")
    session = open_session(folder / FILE_NAME, threads or usable_cpus())
    asked = {value.name for value in session.get_inputs()}
    told = {value.name for value in session.get_outputs()}
    if asked != set(INPUTS) or OUTPUT not in told:
        raise ModelUnsupported(f"{folder / FILE_NAME} must take {' and '.join(INPUTS)} and return {OUTPUT}.")
    graph = EmbeddingGraph(session)
    try:
        graph.run([(0,)])
    except EmbeddingFailed as error:
        raise ModelUnsupported(f"{folder / FILE_NAME} fails on its first run: {error}") from None
    return graph

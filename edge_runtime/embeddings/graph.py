"""A graph from token ids to vectors, as `edge_runtime/build/embedding` writes it, in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edge_runtime.providers.graph_file import GraphFile
from edge_runtime.providers.opened import OpenedGraph
from edge_runtime.providers.providers import Providers
from edge_runtime.providers.samples import Feeds
from edge_runtime.providers.sessions import ORT_ERRORS
from edge_runtime.residency.memory import give_back_freed
from inference_protocol.execution import Execution
from inference_protocol.provider_policy import Work
from runtime_server.embeddings.model import EmbeddingFailed, Rows, Vectors
from runtime_server.model_manifest import Manifest, ModelUnsupported

FILE_NAME = "model.onnx"
FORMAT = "onnx-embedding"
INPUTS = ("input_ids", "attention_mask")
OUTPUT = "sentence_embedding"


_SAMPLE_TOKENS = 64
_FIRST_WORD = 1000  # ids below are marks and single letters


class EmbeddingGraph:
    """One graph. Satisfies `runtime_server.embeddings.model.EmbeddingModel`."""

    def __init__(self, graph: OpenedGraph, providers: Providers) -> None:
        """Run this one, with the inputs and the output that are named here, which `providers` opened."""
        self._graph = graph
        self._providers = providers

    @property
    def execution(self) -> Execution:  # noqa: D102  # see `EmbeddingModel`
        return self._graph.execution

    def run(self, rows: Rows) -> Vectors:  # noqa: D102  # see `EmbeddingModel`
        try:
            vectors = self._graph.run(_feeds(rows))[OUTPUT]
        except ORT_ERRORS as error:
            raise EmbeddingFailed(type(error).__name__) from None
        found: Vectors = np.asarray(vectors, np.float32)
        if not np.isfinite(found).all():
            raise EmbeddingFailed("not finite")
        return found

    def interrupt(self) -> None:  # noqa: D102  # see `EmbeddingModel`
        self._graph.interrupt()

    def close(self) -> None:  # noqa: D102  # see `EmbeddingModel`
        self._providers.close(self._graph)
        give_back_freed()


def embedding_file(folder: Path, manifest: Manifest) -> GraphFile:
    """Return the graph of a folder, and rows of made-up words to try it with."""

    def samples(batch: int) -> Feeds:
        rng = np.random.default_rng(batch)
        return _feeds(
            [tuple(rng.integers(_FIRST_WORD, 2 * _FIRST_WORD, _SAMPLE_TOKENS).tolist()) for _ in range(batch)]
        )

    return GraphFile(folder / FILE_NAME, manifest.public_model, manifest.digest, Work.EMBEDDINGS, samples)


def load_embedding_graph(folder: Path, manifest: Manifest, providers: Providers) -> EmbeddingGraph:
    """Load a folder's graph and run it once.

    Args:
        folder: Whose files were verified.
        manifest: What it says of itself.
        providers: What there is to run it.

    Raises:
        ModelUnsupported: It cannot be run here, or is no such graph.
    """
    if manifest.format != FORMAT:
        raise ModelUnsupported(f"{folder} is of the format {manifest.format}; the edge embeds with {FORMAT} folders.")
    opened = providers.open(embedding_file(folder, manifest))
    graph = EmbeddingGraph(opened, providers)
    try:
        if opened.inputs != set(INPUTS) or OUTPUT not in opened.outputs:
            raise ModelUnsupported(f"{folder / FILE_NAME} must take {' and '.join(INPUTS)} and return {OUTPUT}.")
        graph.run([(0,)])
    except EmbeddingFailed as error:
        graph.close()
        raise ModelUnsupported(f"{folder / FILE_NAME} fails on its first run: {error}") from None
    except ModelUnsupported:
        graph.close()
        raise
    return graph


def _feeds(rows: Rows) -> Feeds:
    longest = max(map(len, rows))
    ids = np.zeros((len(rows), longest), np.int64)
    mask = np.zeros_like(ids)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row
        mask[at, : len(row)] = 1
    return dict(zip(INPUTS, (ids, mask), strict=True))

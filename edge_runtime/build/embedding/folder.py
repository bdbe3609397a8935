"""The two folders of a model that embeds: a graph for the edge, and the published files for the cloud's stand-in."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from edge_runtime.build.embedding.bert import bert_graph
from edge_runtime.build.embedding.sentence_model import read_sentence_model
from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.blocks import Floats
from edge_runtime.build.gguf.weights_file import WeightsFile
from edge_runtime.embeddings.graph import FILE_NAME

WEIGHTS = "model.safetensors"
DESCRIPTION = ("config.json", "tokenizer.json", "sentence_bert_config.json")
HOW = "float32 graph with mean pooling and vectors of length 1"


def write_graph_folder(source: Path, folder: Path) -> int:
    """Write graph, description and tokenizer into an empty folder, and return the window.

    Raises:
        NotImportable: The model is not one that can be built.
    """
    model = read_sentence_model(source)
    with (folder / f"{FILE_NAME}.data").open("wb") as file:
        graph = bert_graph(model, _tensors(source), WeightsFile(file, f"{FILE_NAME}.data"))
    (folder / FILE_NAME).write_bytes(graph.SerializeToString(deterministic=True))
    for name in DESCRIPTION:
        shutil.copyfile(source / name, folder / name)
    return model.window


def write_published_folder(source: Path, folder: Path) -> int:
    """Copy what transformers needs into an empty folder, and return the window.

    Raises:
        NotImportable: The model is not one that embeds as the graph does.
    """
    model = read_sentence_model(source)
    for name in (WEIGHTS, *DESCRIPTION):
        shutil.copyfile(source / name, folder / name)
    return model.window


def _tensors(source: Path) -> dict[str, Floats]:
    try:
        found = load_file(source / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise NotImportable(f"{WEIGHTS} cannot be read: {error}.") from None
    return {name: array for name, array in found.items() if array.dtype == np.float32}

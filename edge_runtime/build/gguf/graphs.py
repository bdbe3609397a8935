"""The two graphs of a model over one file of weights, and their description in onnxruntime-genai's format.

`model.onnx` rounds activations to eight bits, which decodes about three times as fast as float32 does; `prefill.onnx`
reads prompts, many tokens at once, where float32 costs no more: prompts are read exactly. Where no weight is quantized
both would be the same graph, and there is one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.build.bytes_per_token import bytes_per_token
from edge_runtime.build.gguf.architecture import Architecture
from edge_runtime.build.gguf.decoder import decoder_graph
from edge_runtime.build.gguf.matmul import Activations
from edge_runtime.build.gguf.weights import Tensors, WeightsReader
from edge_runtime.build.gguf.weights_file import WeightsFile

DECODE_GRAPH, PREFILL_GRAPH, WEIGHTS = "model.onnx", "prefill.onnx", "model.onnx.data"


@dataclass(frozen=True, slots=True)
class TokenIds:
    """What the graphs' description says of the vocabulary.

    Attributes:
        count: Rows of the embedding.
        special: `bos_token_id` and the like, to id.
        ends: Ids that end an answer.
    """

    count: int
    special: Mapping[str, int]
    ends: tuple[int, ...]


def write_graphs(tensors: Tensors, architecture: Architecture, tokens: TokenIds, folder: Path) -> None:
    """Write weights, graphs and `genai_config.json` into a folder.

    Raises:
        NotImportable: A tensor is missing, of another kind than is supported, or has no use.
    """
    with (folder / WEIGHTS).open("wb") as file:
        weights_file = WeightsFile(file, WEIGHTS)
        weights = WeightsReader(tensors, architecture, weights_file).read(tokens.count)
    graphs = {DECODE_GRAPH: Activations.ROUNDED, PREFILL_GRAPH: Activations.EXACT}
    if not weights.is_quantized:
        del graphs[PREFILL_GRAPH]
    read = 0
    for name, activations in graphs.items():
        model = decoder_graph(architecture, weights, weights_file, activations)
        (folder / name).write_bytes(model.SerializeToString(deterministic=True))
        read = read or bytes_per_token(model)
    config = _genai_config(architecture, tokens, read, prefill=PREFILL_GRAPH in graphs)
    write_json(folder / "genai_config.json", config)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file as people read it."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _genai_config(architecture: Architecture, tokens: TokenIds, read: int, *, prefill: bool) -> dict[str, Any]:
    """Return the description of the graphs (https://onnxruntime.ai/docs/genai/reference/config.html).

    `prefill_filename`, `logits_indices` and `bytes_per_token` are ours: onnxruntime-genai has no name for them.
    """
    decoder = {
        "filename": DECODE_GRAPH,
        **({"prefill_filename": PREFILL_GRAPH} if prefill else {}),
        "bytes_per_token": read,
        "head_size": architecture.head_size,
        "hidden_size": architecture.hidden,
        "num_attention_heads": architecture.heads,
        "num_hidden_layers": architecture.layers,
        "num_key_value_heads": architecture.kv_heads,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "logits_indices": "logits_indices",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
    }
    return {
        "model": {
            "type": architecture.name,
            "context_length": architecture.window,
            "vocab_size": tokens.count,
            **tokens.special,
            "eos_token_id": list(tokens.ends),
            "decoder": decoder,
        }
    }

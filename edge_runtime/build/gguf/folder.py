"""A model folder in onnxruntime-genai's format, out of a GGUF file.

Two graphs read one file of weights. `model.onnx` rounds activations to eight bits, which decodes about three times as
fast as float32 does; `prefill.onnx` reads prompts, many tokens at once, where float32 costs no more: prompts are read
exactly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.architecture import Architecture, read_architecture
from edge_runtime.build.gguf.decoder import decoder_graph
from edge_runtime.build.gguf.matmul import Activations
from edge_runtime.build.gguf.source import GgufSource
from edge_runtime.build.gguf.tokenizer import build_tokenizer
from edge_runtime.build.gguf.vocabulary import Vocabulary, read_vocabulary
from edge_runtime.build.gguf.weights import WeightsReader
from edge_runtime.build.gguf.weights_file import WeightsFile

HOW = "GGUF blocks carried over, first form"  # changes whenever the same file would give other bytes
DECODE_GRAPH, PREFILL_GRAPH, WEIGHTS = "model.onnx", "prefill.onnx", "model.onnx.data"
_TEMPLATE_KEY = "tokenizer.chat_template"


def write_folder(gguf: Path, folder: Path) -> int:
    """Write graphs, weights, configuration, tokenizer and chat template into an empty folder; return the window.

    Raises:
        NotImportable: The file cannot be imported without loss.
    """
    source = GgufSource(gguf)
    architecture = read_architecture(source)
    vocabulary = write_tokenizer(source, folder, window=architecture.window)
    size = len(vocabulary.texts)
    if source.rows_of("token_embd.weight") != size:
        raise NotImportable(
            f"The tensor `token_embd.weight` has {source.rows_of('token_embd.weight')} rows for {size} tokens "
            "(key `tokenizer.ggml.tokens`)."
        )
    with (folder / WEIGHTS).open("wb") as file:
        weights_file = WeightsFile(file, WEIGHTS)
        weights = WeightsReader(source, architecture, weights_file).read(size)
    for name, activations in ((DECODE_GRAPH, Activations.ROUNDED), (PREFILL_GRAPH, Activations.EXACT)):
        model = decoder_graph(architecture, weights, weights_file, activations)
        (folder / name).write_bytes(model.SerializeToString(deterministic=True))
    _write_json(folder / "genai_config.json", _genai_config(architecture, vocabulary))
    return architecture.window


def write_tokenizer(source: GgufSource, folder: Path, *, window: int) -> Vocabulary:
    """Write what a folder of any format says about talking to the model; return its vocabulary.

    Raises:
        NotImportable: A key is missing or not supported.
    """
    vocabulary = read_vocabulary(source)
    tokenizer = build_tokenizer(source, vocabulary)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(source.require(_TEMPLATE_KEY, str), encoding="utf-8")
    special = {name: vocabulary.texts[id_] for name, id_ in vocabulary.names.items()}
    config = {**special, "model_max_length": window, "tokenizer_class": "PreTrainedTokenizerFast"}
    _write_json(folder / "tokenizer_config.json", config)
    return vocabulary


def _genai_config(architecture: Architecture, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the description of the graphs (https://onnxruntime.ai/docs/genai/reference/config.html).

    `prefill_filename` and `logits_indices` are ours: onnxruntime-genai itself has no name for either.
    """
    decoder = {
        "filename": DECODE_GRAPH,
        "prefill_filename": PREFILL_GRAPH,
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
    names = {"bos_token_id": "bos_token", "pad_token_id": "pad_token"}
    special = {key: vocabulary.names[name] for key, name in names.items() if name in vocabulary.names}
    return {
        "model": {
            "type": architecture.name,
            "context_length": architecture.window,
            "vocab_size": len(vocabulary.texts),
            **special,
            "eos_token_id": list(vocabulary.ends),
            "decoder": decoder,
        }
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

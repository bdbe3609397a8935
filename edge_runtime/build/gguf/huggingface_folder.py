"""A Hugging Face folder in float32 out of a GGUF file: the very values that the edge's blocks stand for.

Only what the cloud's stand-in needs: `llama`, without changes to its rotary embedding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.architecture import Architecture, read_architecture
from edge_runtime.build.gguf.blocks import Blocks, read_floats, read_matrix
from edge_runtime.build.gguf.folder import write_tokenizer
from edge_runtime.build.gguf.source import GgufSource
from edge_runtime.build.gguf.vocabulary import Vocabulary

_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def write_huggingface_folder(gguf: Path, folder: Path) -> int:
    """Write weights, configuration, tokenizer and chat template into an empty folder; return the window.

    Raises:
        NotImportable: It is not a plain Llama.
    """
    source = GgufSource(gguf)
    architecture = read_architecture(source)
    if architecture.name != "llama" or architecture.rotary_factor != 1.0:
        raise NotImportable(f"{gguf.name} is not a plain Llama; only such a one can be expanded.")
    vocabulary = write_tokenizer(source, folder, window=architecture.window)
    weights = dict(_weights(source, architecture, len(vocabulary.texts)))
    unread = source.unread_tensors()
    if unread:
        raise NotImportable(f"The tensor `{unread[0]}` has no place in a plain Llama.")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    special = {
        "bos_token_id": vocabulary.names.get("bos_token"),
        "eos_token_id": list(vocabulary.ends),
        "pad_token_id": vocabulary.names.get("pad_token"),
    }
    tied = "lm_head.weight" not in weights
    for name, content in {
        "config.json": _config(architecture, vocabulary, tied) | special,
        "generation_config.json": special,
    }.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return architecture.window


def _weights(
    source: GgufSource, architecture: Architecture, vocabulary_size: int
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    hidden = architecture.hidden

    def matrix(tensor: str, rows: int, columns: int) -> NDArray[np.float32]:
        found = read_matrix(source.tensor(f"{tensor}.weight", rows, columns))
        values = found.values() if isinstance(found, Blocks) else found
        order = architecture.row_order(tensor, rows)
        return values if order is None else values[order]

    def vector(tensor: str) -> NDArray[np.float32]:
        return read_floats(source.tensor(f"{tensor}.weight", hidden))

    yield "model.embed_tokens.weight", matrix("token_embd", vocabulary_size, hidden)
    if source.find_tensor("output.weight", vocabulary_size, hidden) is not None:
        yield "lm_head.weight", matrix("output", vocabulary_size, hidden)
    yield "model.norm.weight", vector("output_norm")
    for index in range(architecture.layers):
        for theirs, ours in _NORMS.items():
            yield f"model.layers.{index}.{ours}.weight", vector(f"blk.{index}.{theirs}")
        for theirs, (ours, rows, columns) in _matrices(architecture).items():
            yield f"model.layers.{index}.{ours}.weight", matrix(f"blk.{index}.{theirs}", rows, columns)


def _matrices(architecture: Architecture) -> dict[str, tuple[str, int, int]]:
    hidden, wide = architecture.hidden, architecture.feed_forward
    queries, keys = (count * architecture.head_size for count in (architecture.heads, architecture.kv_heads))
    return {
        "attn_q": ("self_attn.q_proj", queries, hidden),
        "attn_k": ("self_attn.k_proj", keys, hidden),
        "attn_v": ("self_attn.v_proj", keys, hidden),
        "attn_output": ("self_attn.o_proj", hidden, queries),
        "ffn_gate": ("mlp.gate_proj", wide, hidden),
        "ffn_up": ("mlp.up_proj", wide, hidden),
        "ffn_down": ("mlp.down_proj", hidden, wide),
    }


def _config(architecture: Architecture, vocabulary: Vocabulary, tied: bool) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_size": architecture.hidden,
        "intermediate_size": architecture.feed_forward,
        "num_hidden_layers": architecture.layers,
        "num_attention_heads": architecture.heads,
        "num_key_value_heads": architecture.kv_heads,
        "head_dim": architecture.head_size,
        "max_position_embeddings": architecture.window,
        "rms_norm_eps": architecture.epsilon,
        "rope_parameters": {"rope_type": "default", "rope_theta": architecture.rotary_base},
        "tie_word_embeddings": tied,
        "vocab_size": len(vocabulary.texts),
    }

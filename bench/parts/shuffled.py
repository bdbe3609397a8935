"""The same model with its columns in another order: what it computes is the same, but no block of weights is.

The float32 weights at hand are the values of four-bit blocks. Quantizing them again in blocks that begin at the same
weights would find those blocks again, and lose nothing; weights that were never quantized have no such luck.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file


def write_shuffled(source: Path, folder: Path, seed: int = 0) -> Path:
    """Write a plain Llama with hidden, feed-forward and value columns shuffled, each layer for itself where it may."""
    folder.mkdir()
    for path in source.iterdir():
        if path.suffix != ".safetensors" and path.name != "manifest.json":
            shutil.copyfile(path, folder / path.name)
    config = json.loads((source / "config.json").read_bytes())
    weights = load_file(source / "model.safetensors")
    random = np.random.default_rng(seed)
    hidden = random.permutation(config["hidden_size"])
    size = config["head_dim"]

    def of_heads(count: int, order: NDArray[np.intp]) -> NDArray[np.intp]:
        return (np.arange(count)[:, None] * size + order).ravel()

    for layer in range(config["num_hidden_layers"]):
        fed, head = random.permutation(config["intermediate_size"]), random.permutation(size)
        values = of_heads(config["num_key_value_heads"], head)
        attended = of_heads(config["num_attention_heads"], head)
        for name, rows, columns in (
            ("self_attn.q_proj", None, hidden),
            ("self_attn.k_proj", None, hidden),
            ("self_attn.v_proj", values, hidden),
            ("self_attn.o_proj", hidden, attended),
            ("mlp.gate_proj", fed, hidden),
            ("mlp.up_proj", fed, hidden),
            ("mlp.down_proj", hidden, fed),
            ("input_layernorm", hidden, None),
            ("post_attention_layernorm", hidden, None),
        ):
            key = f"model.layers.{layer}.{name}.weight"
            weight = weights[key] if rows is None else weights[key][rows]
            weights[key] = np.ascontiguousarray(weight if columns is None else weight[:, columns])
    weights["model.embed_tokens.weight"] = np.ascontiguousarray(weights["model.embed_tokens.weight"][:, hidden])
    weights["model.norm.weight"] = weights["model.norm.weight"][hidden]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder

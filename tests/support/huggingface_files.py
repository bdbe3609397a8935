"""Hugging Face folders of small random decoders: the same contents as a GGUF file's, under the other names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_runtime.build.gguf.folder import write_tokenizer
from edge_runtime.build.gguf.source import GgufSource
from tests.support.gguf_files import (
    EPSILON,
    FEED_FORWARD,
    HEAD_SIZE,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    ROTARY_BASE,
    WINDOW,
    Contents,
)

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
Tensors = dict[str, NDArray[np.float32]]


def tensors_of(made: Contents) -> Tensors:
    """A file's values under Hugging Face's names, heads in halves as its rotary embedding wants them."""
    return {_theirs(name): _in_halves(made, name) for name in made.tensors}


def write_model(folder: Path, made: Contents, tensors: Tensors, *, kind: str = "F32", **config: object) -> Path:
    """Write weights, `config.json`, tokenizer and template."""
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", tensors, kind)
    facts = {
        "architectures": ["AnyForCausalLM"],
        "model_type": made.architecture,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_SIZE,
        "max_position_embeddings": WINDOW,
        "rms_norm_eps": EPSILON,
        "rope_theta": ROTARY_BASE,
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "vocab_size": len(tensors["model.embed_tokens.weight"]),
        "eos_token_id": made.keys["tokenizer.ggml.eos_token_id"],
    }
    (folder / "config.json").write_text(json.dumps(facts | config), encoding="utf-8")
    tokens = Contents(made.architecture, {"x": next(iter(made.tensors.values()))}, made.keys)
    gguf = tokens.write(folder.parent / f"{folder.name}-tokens.gguf")
    write_tokenizer(GgufSource(gguf), folder, window=WINDOW)
    return folder


def write_adapter(folder: Path, products: Mapping[str, tuple[NDArray, NDArray]], **config: object) -> Path:
    """Write an adapter: a module's name to its A `[rank, inputs]` and B `[outputs, rank]`."""
    folder.mkdir()
    matrices = {}
    for module, (down, up) in products.items():
        matrices[f"base_model.model.{module}.lora_A.weight"] = down
        matrices[f"base_model.model.{module}.lora_B.weight"] = up
    write_safetensors(folder / "adapter_model.safetensors", matrices)
    facts = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(facts | config), encoding="utf-8")
    return folder


def write_safetensors(path: Path, tensors: Mapping[str, NDArray], kind: str = "F32") -> None:
    """Write the format by hand, since NumPy has no bfloat16."""
    header, body = {}, b""
    for name, values in tensors.items():
        raw = as_kind(values, kind).tobytes()
        offsets = [len(body), len(body) + len(raw)]
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": offsets}
        body += raw
    head = json.dumps(header).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + body)


def as_kind(values: NDArray, kind: str) -> NDArray:
    if kind == "BF16":
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype({"F32": np.float32, "F16": np.float16, "I32": np.int32}[kind])


def _theirs(name: str) -> str:
    *layer, ours, end = name.split(".")
    prefix = f"model.layers.{layer[1]}." if layer else ""
    return f"{prefix}{NAMES[ours]}.{end}"


def _in_halves(made: Contents, name: str) -> NDArray[np.float32]:
    values = made.values(name)
    if made.architecture != "llama" or (".attn_q." not in name and ".attn_k." not in name):
        return values
    return values.reshape(-1, HEAD_SIZE // 2, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)

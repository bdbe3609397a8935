"""GGUF files of every type of block, small and random, and the decoder that they describe, in plain NumPy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, TokenType
from numpy.typing import NDArray

from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from runtime_server.token_spelling import byte_alphabet

Floats = NDArray[np.float32]
LAYERS, HEADS, KV_HEADS, HEAD_SIZE, FEED_FORWARD, WINDOW = 2, 4, 2, 64, 512, 128
HIDDEN = HEADS * HEAD_SIZE  # of which K-quants' blocks of 256 weights are parts
MERGES = ["t h", "Ġ th", "h e"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
EPSILON, ROTARY_BASE = 1e-5, 10_000.0


@dataclass
class Contents:
    """What a file holds, before it is written: tensors by name as they would be stored, and keys."""

    architecture: str
    tensors: dict[str, tuple[GGMLQuantizationType, NDArray, tuple[int, ...]]] = field(default_factory=dict)
    keys: dict[str, object] = field(default_factory=dict)

    def values(self, name: str) -> Floats:
        """The file's own dequantization."""
        kind, data, shape = self.tensors[name]
        return gguf.dequantize(data, kind).reshape(shape)

    def write(self, path: Path) -> Path:
        writer = GGUFWriter(path, self.architecture)
        for key, value in self.keys.items():
            match value:
                case bool():
                    writer.add_bool(key, value)
                case int():
                    writer.add_uint32(key, value)
                case float():
                    writer.add_float32(key, value)
                case str():
                    writer.add_string(key, value)
                case _:
                    writer.add_array(key, value)
        for name, (kind, data, _) in self.tensors.items():
            writer.add_tensor(name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def random_tensor(
    random: np.random.Generator, kind: GGMLQuantizationType, *shape: int
) -> tuple[GGMLQuantizationType, NDArray, tuple[int, ...]]:
    """Weights of a sensible size: quantized where the package can, random blocks with small scales elsewhere."""
    if kind.name.endswith("_K"):
        weights, size = GGML_QUANT_SIZES[kind]
        raw = random.integers(0, 256, (*shape[:-1], shape[-1] // weights, size), dtype=np.uint8)
        halves = {"Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}[kind.name]
        for at in halves:
            scale = random.uniform(0.5, 1.0, raw.shape[:-1]) * (2e-4 if kind.name == "Q6_K" else 1e-3)
            raw[..., at : at + 2] = scale.astype(np.float16)[..., None].view(np.uint8)
        return kind, raw.reshape(*shape[:-1], -1), shape
    values = (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
    return kind, gguf.quantize(values, kind), shape


def make_contents(
    architecture: str = "llama",
    kind: GGMLQuantizationType = GGMLQuantizationType.Q4_1,
    kinds: Mapping[str, GGMLQuantizationType] | None = None,
    *,
    tied: bool = True,
    biases: bool = False,
    seed: int = 1,
) -> Contents:
    """Random contents of a file; `kinds` gives a tensor's type by the end of its name, `kind` that of the others."""
    made = Contents(architecture)
    random = np.random.default_rng(seed)
    f32 = GGMLQuantizationType.F32
    tokens = [*byte_alphabet(), *SPECIAL, *(merge.replace(" ", "") for merge in MERGES)]

    def add(name: str, *shape: int) -> None:
        chosen = next((value for end, value in (kinds or {}).items() if name.endswith(end)), kind)
        made.tensors[name] = random_tensor(random, f32 if len(shape) == 1 else chosen, *shape)
        if name.endswith("norm.weight"):
            made.tensors[name] = (f32, random.uniform(0.5, 1.5, shape).astype(np.float32), shape)

    add("token_embd.weight", len(tokens), HIDDEN)
    for layer in range(LAYERS):
        keys = KV_HEADS * HEAD_SIZE
        for name, rows, columns in (
            ("attn_q", HIDDEN, HIDDEN),
            ("attn_k", keys, HIDDEN),
            ("attn_v", keys, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN),
            ("ffn_gate", FEED_FORWARD, HIDDEN),
            ("ffn_up", FEED_FORWARD, HIDDEN),
            ("ffn_down", HIDDEN, FEED_FORWARD),
        ):
            add(f"blk.{layer}.{name}.weight", rows, columns)
            if biases and name in ("attn_q", "attn_k", "attn_v"):
                add(f"blk.{layer}.{name}.bias", rows)
        for name, size in (("attn_norm", HIDDEN), ("ffn_norm", HIDDEN)):
            add(f"blk.{layer}.{name}.weight", size)
        if architecture == "qwen3":
            add(f"blk.{layer}.attn_q_norm.weight", HEAD_SIZE)
            add(f"blk.{layer}.attn_k_norm.weight", HEAD_SIZE)
    add("output_norm.weight", HIDDEN)
    if not tied:
        add("output.weight", len(tokens), HIDDEN)
    made.keys = {
        f"{architecture}.block_count": LAYERS,
        f"{architecture}.context_length": WINDOW,
        f"{architecture}.embedding_length": HIDDEN,
        f"{architecture}.feed_forward_length": FEED_FORWARD,
        f"{architecture}.attention.head_count": HEADS,
        f"{architecture}.attention.head_count_kv": KV_HEADS,
        f"{architecture}.attention.layer_norm_rms_epsilon": EPSILON,
        f"{architecture}.rope.freq_base": ROTARY_BASE,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [
            *[int(TokenType.NORMAL)] * 256,
            *[int(TokenType.CONTROL)] * len(SPECIAL),
            *[int(TokenType.NORMAL)] * len(MERGES),
        ],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.chat_template": TEMPLATE,
    }
    return made


def reference_logits(made: Contents, tokens: list[int], divisors: Floats | None = None, factor: float = 1.0) -> Floats:
    """Every position's logits, in float64, of the weights as the file's own dequantization gives them."""
    name = made.architecture

    def weight(tensor: str) -> NDArray[np.float64]:
        return made.values(f"{tensor}.weight").astype(np.float64)

    def linear(x: NDArray[np.float64], tensor: str) -> NDArray[np.float64]:
        y = x @ weight(tensor).T
        return y + made.values(f"{tensor}.bias") if f"{tensor}.bias" in made.tensors else y

    def norm(x: NDArray[np.float64], tensor: str) -> NDArray[np.float64]:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight(tensor)

    frequencies = ROTARY_BASE ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE) / (1 if divisors is None else divisors)
    angles = np.arange(len(tokens))[:, None, None] * frequencies / factor

    def rotate(x: NDArray[np.float64]) -> NDArray[np.float64]:
        """llama.cpp turns neighbours in files of `llama`, and halves of a head in others."""
        pairs = x.reshape(*x.shape[:2], -1, 2) if name == "llama" else x.reshape(*x.shape[:2], 2, -1).swapaxes(2, 3)
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)
        both = np.stack([turned.real, turned.imag], -1)
        return both.reshape(x.shape) if name == "llama" else both.swapaxes(2, 3).reshape(x.shape)

    hidden = weight("token_embd")[tokens]
    unseen = np.triu(np.full((len(tokens),) * 2, -np.inf), 1)
    for layer in range(LAYERS):
        normal = norm(hidden, f"blk.{layer}.attn_norm")
        q, k, v = (
            linear(normal, f"blk.{layer}.attn_{part}").reshape(len(tokens), -1, HEAD_SIZE) for part in ("q", "k", "v")
        )
        if name == "qwen3":
            q, k = norm(q, f"blk.{layer}.attn_q_norm"), norm(k, f"blk.{layer}.attn_k_norm")
        k, v = (np.repeat(each, HEADS // KV_HEADS, axis=1) for each in (rotate(k), v))
        scores = np.einsum("qhd,khd->hqk", rotate(q), k) / np.sqrt(HEAD_SIZE) + unseen
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hqk,khd->qhd", shares / shares.sum(-1, keepdims=True), v).reshape(len(tokens), -1)
        hidden = hidden + linear(mixed, f"blk.{layer}.attn_output")
        normal = norm(hidden, f"blk.{layer}.ffn_norm")
        gate, up = linear(normal, f"blk.{layer}.ffn_gate"), linear(normal, f"blk.{layer}.ffn_up")
        hidden = hidden + linear(gate / (1 + np.exp(-gate)) * up, f"blk.{layer}.ffn_down")
    return linear(norm(hidden, "output_norm"), "output" if "output.weight" in made.tensors else "token_embd")


def load(folder: Path) -> DecoderGraph:
    return DecoderGraph(folder, read_genai_config(folder), slots=3, window=WINDOW, threads=1)


def config_of(folder: Path) -> dict:
    return json.loads((folder / "genai_config.json").read_text(encoding="utf-8"))["model"]

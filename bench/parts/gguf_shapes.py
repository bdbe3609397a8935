"""GGUF files to measure on: random weights in the shape of larger models, and a file's float32 expansion."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, TokenType
from numpy.typing import NDArray

_SKIPPED = ("GGUF.", "general.architecture")


@dataclass(frozen=True)
class Shape:
    """A decoder of the Qwen2 kind."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int = 151_936

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads


SHAPES = (
    Shape("qwen2-0.5b-random", 24, 896, 14, 2, 4864),
    Shape("qwen2-1.5b-random", 28, 1536, 12, 2, 8960),
)


def write_random(shape: Shape, tokenizer: Path, path: Path) -> Path:
    """Write a Q4_1 file of this shape, its embedding tied; the tokenizer is another file's, padded to its size."""
    random = np.random.default_rng(7)
    writer = GGUFWriter(path, "qwen2")
    writer.add_block_count(shape.layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1_000_000.0)
    _copy_tokenizer(GGUFReader(tokenizer), writer, shape.vocabulary)

    def matrix(name: str, rows: int, columns: int) -> None:
        writer.add_tensor(name, _random_q4_1(random, rows, columns), raw_dtype=GGMLQuantizationType.Q4_1)

    def vector(name: str, size: int, value: float) -> None:
        writer.add_tensor(name, np.full(size, value, np.float32))

    keys = shape.kv_heads * shape.head_size
    matrix("token_embd.weight", shape.vocabulary, shape.hidden)
    vector("output_norm.weight", shape.hidden, 1.0)
    for layer in range(shape.layers):
        block = f"blk.{layer}"
        vector(f"{block}.attn_norm.weight", shape.hidden, 1.0)
        vector(f"{block}.ffn_norm.weight", shape.hidden, 1.0)
        for name, rows in (("attn_q", shape.hidden), ("attn_k", keys), ("attn_v", keys)):
            matrix(f"{block}.{name}.weight", rows, shape.hidden)
            vector(f"{block}.{name}.bias", rows, 0.0)
        matrix(f"{block}.attn_output.weight", shape.hidden, shape.hidden)
        matrix(f"{block}.ffn_gate.weight", shape.feed_forward, shape.hidden)
        matrix(f"{block}.ffn_up.weight", shape.feed_forward, shape.hidden)
        matrix(f"{block}.ffn_down.weight", shape.hidden, shape.feed_forward)
    _finish(writer)
    return path


def write_exact(source: Path, path: Path) -> Path:
    """Write what a file's blocks stand for, in float32."""
    reader = GGUFReader(source)
    field = reader.fields["general.architecture"]
    writer = GGUFWriter(path, str(field.contents()))
    _copy(reader, writer, [name for name in reader.fields if not name.startswith(_SKIPPED)])
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values.reshape(tuple(int(n) for n in reversed(tensor.shape))))
    _finish(writer)
    return path


def _random_q4_1(random: np.random.Generator, rows: int, columns: int) -> NDArray[np.uint8]:
    """Blocks of 32 weights: a float16 scale, a float16 minimum of minus eight scales, 16 bytes of halves."""
    blocks = random.integers(0, 256, (rows, columns // 32, 20), dtype=np.uint8)
    scale = np.float16(0.2 / np.sqrt(columns))
    blocks[..., 0:2] = np.array([scale], np.float16).view(np.uint8)
    blocks[..., 2:4] = np.array([-8 * scale], np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def _copy_tokenizer(reader: GGUFReader, writer: GGUFWriter, size: int) -> None:
    names = [name for name in reader.fields if name.startswith("tokenizer.")]
    whole = ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type")
    _copy(reader, writer, [name for name in names if name not in whole])
    tokens: list[str] = reader.fields[whole[0]].contents()
    types: list[int] = reader.fields[whole[1]].contents()
    missing = size - len(tokens)
    # Words like any other, since random weights choose them, and an answer without text cannot be timed.
    writer.add_token_list([*tokens, *(f"added{n}" for n in range(missing))])
    writer.add_token_types([*types, *[int(TokenType.NORMAL)] * missing])


def _copy(reader: GGUFReader, writer: GGUFWriter, names: list[str]) -> None:
    for name in names:
        field = reader.fields[name]
        kind, value = field.types[0], field.contents()
        inner: Any = field.types[-1] if kind is GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, kind, inner)


def _finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

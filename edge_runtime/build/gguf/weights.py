"""From a file's tensors to what the graph reads: rows put in order, matrices with one input made one, bytes written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.architecture import Architecture
from edge_runtime.build.gguf.blocks import Blocks, Floats, Matrix, concatenate, reorder_rows
from edge_runtime.build.gguf.weights_file import WeightsFile


class Tensors(Protocol):
    """Where weights come from, under GGUF's names."""

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:
        """Return a matrix that must be there.

        Raises:
            NotImportable: It is missing, or has another shape or type than is supported.
        """
        ...

    def floats(self, name: str, size: int) -> Floats:
        """Return a vector that must be there, in float32.

        Raises:
            NotImportable: It is missing, or has another shape or type than is supported.
        """
        ...

    def find_floats(self, name: str, size: int) -> Floats | None:
        """Return a vector, or nothing where it is missing.

        Raises:
            NotImportable: It has another shape or type than is supported.
        """
        ...

    def __contains__(self, name: object) -> bool:
        """Whether there is such a tensor."""
        ...

    def unread(self) -> list[str]:
        """Return what nobody asked for, under the source's own names."""
        ...


@dataclass(frozen=True, slots=True)
class Projection:
    """One matrix that the graph multiplies with, by the names of its parts.

    Attributes:
        name: What the names begin with.
        inputs: Columns.
        outputs: Rows.
        layout: Bits and block size of its blocks, or `None` where it is float32.
        weight: Packed codes, or `[outputs, inputs]` in float32.
        scales: `[outputs, blocks]`.
        offsets: `[blocks, outputs]`: what one block's sum of inputs adds to each output.
        bias: `[outputs]`.
    """

    name: str
    inputs: int
    outputs: int
    layout: tuple[int, int] | None
    weight: str
    scales: str | None = None
    offsets: str | None = None
    bias: str | None = None


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer. Queries, keys and values are one projection or three, gate and up one or two."""

    attention_norm: str
    qkv: tuple[Projection, ...]
    query_norm: str | None
    key_norm: str | None
    output: Projection
    feed_forward_norm: str
    gate_up: tuple[Projection, ...]
    down: Projection

    @property
    def projections(self) -> tuple[Projection, ...]:
        """Every matrix of the layer."""
        return (*self.qkv, self.output, *self.gate_up, self.down)


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """The whole model.

    Attributes:
        embedding: Holds a row for each token; the graph gathers from it.
        table: The embedding's codes, or floats, as a matrix of rows.
        layers: In order.
        final_norm: Before the head.
        head: From the hidden state to logits; where the file ties it, of the embedding's very bytes.
        cosines: `[window, head size / 2]`.
        sines: The same.
    """

    embedding: Projection
    table: str
    layers: tuple[LayerWeights, ...]
    final_norm: str
    head: Projection
    cosines: str
    sines: str

    @property
    def is_quantized(self) -> bool:
        """Whether any matrix is of blocks."""
        each = [self.head, *(part for layer in self.layers for part in layer.projections)]
        return any(part.layout is not None for part in each)


class WeightsReader:
    """Takes every tensor of a source, in the order of the graph."""

    def __init__(self, tensors: Tensors, architecture: Architecture, file: WeightsFile) -> None:
        """Read from `tensors`, write to `file`."""
        self._tensors = tensors
        self._shape = architecture
        self._file = file

    def read(self, vocabulary_size: int) -> DecoderWeights:
        """Write everything.

        Raises:
            NotImportable: A tensor is missing, has another shape or type than is supported, or has no use.
        """
        shape = self._shape
        table = self._tensors.matrix("token_embd.weight", vocabulary_size, shape.hidden)
        embedding = self._write("embedding", [table])[0]
        cosines, sines = shape.rotary_tables(self._tensors.find_floats("rope_freqs.weight", shape.head_size // 2))
        weights = DecoderWeights(
            embedding=embedding,
            table=self._as_rows(embedding, table),
            cosines=self._file.add("cosines", cosines),
            sines=self._file.add("sines", sines),
            layers=tuple(self._layer(index) for index in range(shape.layers)),
            final_norm=self._floats("output_norm.weight", shape.hidden),
            head=self._head(embedding, vocabulary_size),
        )
        unread = self._tensors.unread()
        if unread:
            raise NotImportable(
                f"The tensor `{unread[0]}` has no place in a `{shape.name}` decoder as it is known here."
            )
        return weights

    def _layer(self, index: int) -> LayerWeights:
        shape, prefix = self._shape, f"blk.{index}."
        queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
        rows = {"attn_q": queries, "attn_k": keys, "attn_v": keys}
        normalizes = shape.normalizes_heads
        return LayerWeights(
            attention_norm=self._floats(f"{prefix}attn_norm.weight", shape.hidden),
            qkv=self._projections(
                f"{prefix}qkv", [f"{prefix}{name}" for name in rows], list(rows.values()), shape.hidden
            ),
            query_norm=self._floats(f"{prefix}attn_q_norm.weight", shape.head_size) if normalizes else None,
            key_norm=self._floats(f"{prefix}attn_k_norm.weight", shape.head_size) if normalizes else None,
            output=self._projections(f"{prefix}output", [f"{prefix}attn_output"], [shape.hidden], queries)[0],
            feed_forward_norm=self._floats(f"{prefix}ffn_norm.weight", shape.hidden),
            gate_up=self._projections(
                f"{prefix}gate_up", [f"{prefix}ffn_gate", f"{prefix}ffn_up"], [shape.feed_forward] * 2, shape.hidden
            ),
            down=self._projections(f"{prefix}down", [f"{prefix}ffn_down"], [shape.hidden], shape.feed_forward)[0],
        )

    def _head(self, embedding: Projection, rows: int) -> Projection:
        if "output.weight" not in self._tensors:
            return embedding
        return self._projections("head", ["output"], [rows], self._shape.hidden)[0]

    def _projections(self, name: str, tensors: list[str], rows: list[int], columns: int) -> tuple[Projection, ...]:
        """Write matrices that share their input: as one if their blocks are alike, else each."""
        matrices, biases = [], []
        for tensor, count in zip(tensors, rows, strict=True):
            matrix = self._tensors.matrix(f"{tensor}.weight", count, columns)
            values = self._tensors.find_floats(f"{tensor}.bias", count)
            order = self._shape.row_order(tensor, count)
            matrices.append(matrix if order is None else reorder_rows(matrix, order))
            biases.append(values if values is None or order is None else values[order])
        return self._write(name, matrices, biases)

    def _write(
        self, name: str, matrices: list[Matrix], biases: Sequence[NDArray[np.float32] | None] = (None,)
    ) -> tuple[Projection, ...]:
        whole = concatenate(matrices)
        if whole is None:
            named = zip(matrices, biases, strict=True)
            return tuple(self._write(f"{name}.{at}", [matrix], [bias])[0] for at, (matrix, bias) in enumerate(named))
        bias = None
        if any(part is not None for part in biases):
            parts = [
                np.zeros(_rows(matrix), np.float32) if part is None else part
                for matrix, part in zip(matrices, biases, strict=True)
            ]
            bias = self._file.add(f"{name}.bias", np.concatenate(parts))
        if not isinstance(whole, Blocks):
            outputs, inputs = whole.shape
            return (Projection(name, inputs, outputs, None, self._file.add(f"{name}.weight", whole), bias=bias),)
        outputs, blocks, size = whole.codes.shape
        offsets = None if whole.offsets is None else self._file.add(f"{name}.offsets", whole.offsets.T)
        weight = self._file.add(f"{name}.codes", whole.packed())
        scales = self._file.add(f"{name}.scales", whole.scales)
        return (Projection(name, blocks * size, outputs, whole.layout, weight, scales, offsets, bias),)

    def _as_rows(self, embedding: Projection, table: Matrix) -> str:
        """Return the embedding's bytes under the shape that gathering wants: `[rows, bytes of a row]`."""
        if not isinstance(table, Blocks):
            return embedding.weight
        return self._file.share(
            "embedding.rows", embedding.weight, (len(table.codes), embedding.inputs * table.bits // 8)
        )

    def _floats(self, name: str, size: int) -> str:
        return self._file.add(name, self._tensors.floats(name, size))


def _rows(matrix: Matrix) -> int:
    return len(matrix.codes if isinstance(matrix, Blocks) else matrix)

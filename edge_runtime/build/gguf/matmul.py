"""Multiplying with a matrix of blocks: what `MatMulNBits` computes, and what it leaves over.

y = x · (scale · (code − zero))  +  Σ over blocks (sum of x in the block) · offset
    one MatMulNBits                 one small MatMul; the sums are computed once for all that read x
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from edge_runtime.build.gguf.nodes import Nodes
from edge_runtime.build.gguf.weights import Projection

_FLOAT32, _INT8 = 1, 4  # MatMulNBits' accuracy levels
_LARGEST_INT8 = 127.0


class Activations(Enum):
    """How exactly the factor beside the weights is read.

    `ROUNDED`: to eight bits, block by block, which is fast for one token at a time. `EXACT`: to float32's own rounding.
    """

    ROUNDED = "rounded"
    EXACT = "exact"


class Multiplier:
    """Adds projections to a graph."""

    def __init__(self, nodes: Nodes, activations: Activations) -> None:
        """Multiply in this way throughout."""
        self._nodes = nodes
        self._exact = activations is Activations.EXACT
        self._blocks: dict[tuple[str, int], str] = {}
        self._sums: dict[tuple[str, int], str] = {}
        self._terms: dict[tuple[str, int], str] = {}

    def project(self, by: Projection, value: str, name: str) -> str:
        """Return the product of `value` `[batch, tokens, inputs]` with a matrix, plus its bias: `[…, outputs]`."""
        product = self._product(by, value, name)
        if by.offsets is not None:
            assert by.layout is not None
            sums = self._block_sums(value, by.inputs, by.layout[1])
            correction = self._nodes.add("MatMul", f"{name}.correction", sums, by.offsets)
            product = self._nodes.add("Add", f"{name}.corrected", product, correction)
        return product if by.bias is None else self._nodes.add("Add", f"{name}.biased", product, by.bias)

    def _product(self, by: Projection, value: str, name: str) -> str:
        if by.layout is None:
            return self._nodes.add_contrib(
                "FusedMatMul", f"{name}.product", value, self._nodes.in_float32(by.weight), transB=1
            )
        if self._exact and by.layout[0] == 8:
            return self._two_terms(by, value, name)
        return self._multiply(by, value, f"{name}.product", _FLOAT32 if self._exact else _INT8)

    def _multiply(self, by: Projection, value: str, name: str, accuracy: int) -> str:
        assert by.layout is not None
        bits, size = by.layout
        return self._nodes.add_contrib(
            "MatMulNBits",
            name,
            *(value, by.weight, by.scales),
            K=by.inputs,
            N=by.outputs,
            bits=bits,
            block_size=size,
            accuracy_level=accuracy,
        )

    def _two_terms(self, by: Projection, value: str, name: str) -> str:
        """Multiply eight-bit codes exactly. ONNX Runtime's float32 kernel for them is 200 times as slow for one row.

        What the kernel for eight-bit activations would round `value` to goes through it unchanged; so does, on a scale
        of its own, the rest. Their sum is `value` to a part in 60,000 of the block's largest.
        """
        assert by.layout is not None
        terms = self._split_in_terms(value, by.inputs, by.layout[1])
        coarse, fine = self._nodes.halve(f"{name}.terms", self._multiply(by, terms, f"{name}.both", _INT8), axis=0)
        return self._nodes.add("Add", f"{name}.product", coarse, fine)

    def _split_in_terms(self, value: str, columns: int, size: int) -> str:
        """Return `[2 × batch, tokens, columns]`: the coarse terms of all rows, then the fine ones."""
        key = (value, size)
        if key not in self._terms:
            add, constant = self._nodes.add, self._nodes.constant
            blocks = self._in_blocks(value, columns, size)
            largest = add("ReduceMax", f"{value}.largest{size}", add("Abs", f"{value}.abs{size}", blocks), self._last())
            tiny = constant("tiny", np.array(np.finfo(np.float32).tiny, np.float32))
            most = constant("largest_int8", np.array(_LARGEST_INT8, np.float32))
            step = add("Max", f"{value}.step{size}", add("Div", f"{value}.ideal{size}", largest, most), tiny)
            count = add("Round", f"{value}.count{size}", add("Div", f"{value}.ratio{size}", blocks, step))
            coarse = add("Mul", f"{value}.coarse{size}", count, step)
            fine = add("Sub", f"{value}.fine{size}", blocks, coarse)
            both = add("Concat", f"{value}.both{size}", coarse, fine, axis=0)
            shape = constant(f"rows_of_{columns}", np.array([0, 0, columns], np.int64))
            self._terms[key] = add("Reshape", f"{value}.terms{size}", both, shape)
        return self._terms[key]

    def _block_sums(self, value: str, columns: int, size: int) -> str:
        key = (value, size)
        if key not in self._sums:
            blocks = self._in_blocks(value, columns, size)
            self._sums[key] = self._nodes.add("ReduceSum", f"{value}.sums{size}", blocks, self._last(), keepdims=0)
        return self._sums[key]

    def _in_blocks(self, value: str, columns: int, size: int) -> str:
        key = (value, size)
        if key not in self._blocks:
            name = f"{columns // size}_blocks_of_{size}"
            shape = self._nodes.constant(name, np.array([0, 0, columns // size, size], np.int64))
            self._blocks[key] = self._nodes.add("Reshape", f"{value}.{name}", value, shape)
        return self._blocks[key]

    def _last(self) -> str:
        return self._nodes.constant("last_axis", np.array([-1], np.int64))

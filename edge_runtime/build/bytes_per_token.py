"""How much of a graph's weights one decoded token reads: what a machine's memory bandwidth is divided by."""

from __future__ import annotations

import math

import onnx
from onnx import TensorProto

# Of these operators' weights one token reads a row: embeddings and rotary tables.
_READ_IN_PART = ("Gather", "GatherBlockQuantized", "GroupQueryAttention")
_ITEM_BITS = {TensorProto.FLOAT: 32, TensorProto.FLOAT16: 16, TensorProto.UINT8: 8, TensorProto.INT8: 8}


def bytes_per_token(model: onnx.ModelProto) -> int:
    """Return the bytes of every weight that an operator reads whole; what is cast before counts as it comes out."""
    whole = {name for node in model.graph.node if node.op_type not in _READ_IN_PART for name in node.input}
    cast = {name for node in model.graph.node if node.op_type == "Cast" for name in node.input}
    bits = 0
    for tensor in model.graph.initializer:
        if tensor.name in whole:
            item = 32 if tensor.name in cast else _ITEM_BITS.get(tensor.data_type, 64)
            bits += math.prod(tensor.dims) * item
    return bits // 8

"""Graphs of a few nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HIDDEN = 64, 256


def write_perceptron(path: Path, *, rows: int | str = "rows", seed: int = 0) -> Path:
    """Two products with a rectifier between them, from `x` to `y`, both `[rows, 64]`."""
    rng = np.random.default_rng(seed)
    shapes = {"first": (WIDTH, HIDDEN), "second": (HIDDEN, WIDTH)}
    weights = [
        numpy_helper.from_array((rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["rectified"]),
        helper.make_node("MatMul", ["rectified", "second"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, WIDTH]) for name in "xy")
    graph = helper.make_graph(nodes, "perceptron", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path

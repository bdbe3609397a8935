"""Folders of small graphs, whole with their manifests, as the edge runtime serves them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from edge_runtime.tensors.description import NO_WINDOW
from runtime_server import model_manifest
from runtime_server.model_manifest import Manifest

TYPES: Mapping[str, int] = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}
Value = tuple[str, int, Sequence[int | str]]


def graph(nodes: Sequence[Any], inputs: Sequence[Value], outputs: Sequence[Value], **constants: Any) -> onnx.ModelProto:
    made = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [helper.make_tensor(name, TensorProto.INT64, [len(each)], each) for name, each in constants.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def every_type() -> onnx.ModelProto:
    """For each type an input of any number of rows, given back as it came."""
    nodes = [helper.make_node("Identity", [name.lower()], [f"{name.lower()}_out"]) for name in TYPES]
    inputs = [(name.lower(), kind, ["rows", 2]) for name, kind in TYPES.items()]
    return graph(nodes, inputs, [(f"{name}_out", kind, shape) for name, kind, shape in inputs])


def running_mean() -> onnx.ModelProto:
    """The mean of each row, of any length, added to a state of `[1, rows, 1]`: one value of padding would be seen."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Unsqueeze", ["mean", "first"], ["raised"]),
        helper.make_node("Add", ["state", "raised"], ["state_next"]),
    ]
    rows = TensorProto.FLOAT
    inputs = [("x", rows, ["rows", "length"]), ("state", rows, [1, "rows", 1])]
    return graph(nodes, inputs, [("mean", rows, ["rows", 1]), ("state_next", rows, [1, "rows", 1])], first=[0])


MEAN_AXES = {"x": 0, "mean": 0, "state": 1, "state_next": 1}


def reciprocal() -> onnx.ModelProto:
    nodes = [helper.make_node("Reciprocal", ["x"], ["y"])]
    return graph(nodes, [("x", TensorProto.FLOAT, ["rows", 2])], [("y", TensorProto.FLOAT, ["rows", 2])])


def counting() -> onnx.ModelProto:
    """Adds one to each of its values, as many times as it is told: for as long as a test needs it to run."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["goes"]), helper.make_node("Add", ["value", "one"], ["more"])],
        "once",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value", TensorProto.INT64, None),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("more", TensorProto.INT64, None),
        ],
    )
    loop = helper.make_node("Loop", ["times", "", "x"], ["y"], body=body)
    whole = TensorProto.INT64
    return graph([loop], [("x", whole, ["rows"]), ("times", whole, [1])], [("y", whole, ["rows"])], one=[1])


def without_weights() -> onnx.ModelProto:
    """A graph whose weights lie in a file that nobody copied along."""
    value = ("x", TensorProto.FLOAT, ["rows", 2])
    model = graph([helper.make_node("Mul", ["x", "w"], ["y"])], [value], [("y", TensorProto.FLOAT, ["rows", 2])])
    weight = model.graph.initializer.add()
    weight.name, weight.data_type = "w", TensorProto.FLOAT
    weight.dims.extend([2])
    weight.data_location = TensorProto.EXTERNAL
    entry = weight.external_data.add()
    entry.key, entry.value = "location", "weights.data"
    return model


def write_folder(
    folder: Path, versions: Mapping[str, tuple[onnx.ModelProto, Mapping[str, Any]]], **description: Any
) -> Path:
    """Write a whole model folder; each version is a graph, and what its description says of that."""
    folder.mkdir()
    told = {}
    for name, (model, further) in versions.items():
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        told[name] = {"file": f"{name}.onnx", **further}
    (folder / "tensors.json").write_text(json.dumps({"versions": told, **description}), encoding="utf-8")
    files = model_manifest.hash_folder(folder)
    manifest = Manifest(
        name=folder.name,
        public_model=folder.name,
        digest=model_manifest.digest_of(files),
        files=files,
        source={"of": "a test"},
        format="onnx-tensors",
        window=NO_WINDOW,
        created_by={},
    )
    model_manifest.write_manifest(folder, manifest)
    return folder

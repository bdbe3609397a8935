"""Putting nodes in a graph one after the other, each with a name that says where it stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from edge_runtime.build.gguf.weights_file import WeightsFile

_OPSETS = (helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1))
_IR_VERSION = 10


class Nodes:
    """A graph in the making. Weights stay in their file; small constants go into the graph."""

    def __init__(self, weights: WeightsFile) -> None:
        """Begin an empty graph over these weights."""
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, TensorProto] = {}
        self._cast: set[str] = set()

    def add(self, kind: str, name: str, *inputs: str | None, **attributes: Any) -> str:
        """Add an operator of ONNX with one output, whose name is returned."""
        return self._add("", kind, name, inputs, (name,), attributes)

    def add_contrib(
        self, kind: str, name: str, *inputs: str | None, outputs: tuple[str, ...] = (), **attributes: Any
    ) -> str:
        """Add an operator of ONNX Runtime's own; its outputs are `outputs`, or one that is called `name`."""
        return self._add("com.microsoft", kind, name, inputs, outputs or (name,), attributes)

    def halve(self, name: str, value: str, axis: int) -> tuple[str, str]:
        """Cut a value in halves."""
        halves = (f"{name}.first", f"{name}.second")
        self._add("", "Split", name, (value,), halves, {"axis": axis, "num_outputs": 2})
        return halves

    def split(self, value: str, axis: int, into: tuple[str, ...], sizes: str) -> None:
        """Cut a value in parts of different sizes, given by a constant."""
        self._add("", "Split", f"{into[0]}.split", (value, sizes), into, {"axis": axis})

    def in_float32(self, weight: str) -> str:
        """Return a weight's name in float32; ONNX Runtime casts one that is kept in float16 once, when it loads."""
        if self._weights.proto(weight).data_type == TensorProto.FLOAT:
            return weight
        name = f"{weight}.in_float32"
        if name not in self._cast:
            self._cast.add(name)
            self.add("Cast", name, weight, to=TensorProto.FLOAT)
        return name

    def constant(self, name: str, value: NDArray[Any] | int | float) -> str:
        """Return the name of a small constant; the same name stands for the same value."""
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def model(self, name: str, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> onnx.ModelProto:
        """Return the whole, with the weights that its nodes use."""
        used = dict.fromkeys(name for node in self._nodes for name in node.input)
        initializers = [self._weights.proto(name) for name in used if name in self._weights]
        graph = helper.make_graph(self._nodes, name, inputs, outputs, [*initializers, *self._constants.values()])
        return helper.make_model(graph, opset_imports=_OPSETS, ir_version=_IR_VERSION, producer_name="tidegate")

    def _add(
        self,
        domain: str,
        kind: str,
        name: str,
        inputs: tuple[str | None, ...],
        outputs: tuple[str, ...],
        attributes: dict[str, Any],
    ) -> str:
        given = [value or "" for value in inputs]
        self._nodes.append(helper.make_node(kind, given, list(outputs), name=name, domain=domain, **attributes))
        return outputs[0]

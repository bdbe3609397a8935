"""One graph from tensors to tensors, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edge_runtime.providers.graph_file import GraphFile
from edge_runtime.providers.opened import OpenedGraph
from edge_runtime.providers.providers import Providers
from edge_runtime.providers.sessions import ORT_ERRORS
from edge_runtime.residency.memory import give_back_freed
from inference_protocol.execution import Execution
from inference_protocol.open_inference.datatypes import Datatype
from runtime_server.model_manifest import ModelUnsupported
from runtime_server.tensors.model import Arrays, TensorRunFailed, TensorSpec

_DATATYPES: Mapping[str, Datatype] = {
    "tensor(bool)": Datatype.BOOL,
    **{f"tensor(uint{bits})": Datatype(f"UINT{bits}") for bits in (8, 16, 32, 64)},
    **{f"tensor(int{bits})": Datatype(f"INT{bits}") for bits in (8, 16, 32, 64)},
    "tensor(float16)": Datatype.FP16,
    "tensor(float)": Datatype.FP32,
    "tensor(double)": Datatype.FP64,
    "tensor(string)": Datatype.BYTES,
}


class TensorGraph:
    """One graph. Satisfies `runtime_server.tensors.model.TensorModel`."""

    def __init__(self, graph: OpenedGraph, providers: Providers) -> None:
        """Run this one, which `providers` opened.

        Raises:
            ModelUnsupported: It takes or gives something that the protocol cannot carry.
        """
        assert graph.session is not None, "it was just opened"
        self.inputs: Sequence[TensorSpec] = [_spec(value) for value in graph.session.get_inputs()]
        self.outputs: Sequence[TensorSpec] = [_spec(value) for value in graph.session.get_outputs()]
        self._graph = graph
        self._providers = providers

    @property
    def execution(self) -> Execution:  # noqa: D102  # see `TensorModel`
        return self._graph.execution

    def run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:  # noqa: D102  # see `TensorModel`
        try:
            found = self._graph.run(inputs, outputs)
        except ORT_ERRORS as error:
            raise TensorRunFailed(type(error).__name__) from None
        return {name: np.asarray(each) for name, each in found.items()}

    def interrupt(self) -> None:  # noqa: D102  # see `TensorModel`
        self._graph.interrupt()

    def close(self) -> None:  # noqa: D102  # see `TensorModel`
        self._providers.close(self._graph)
        give_back_freed()


def load_tensor_graph(file: GraphFile, tensors: Sequence[str], providers: Providers) -> TensorGraph:
    """Load a graph.

    Args:
        file: Which was verified.
        tensors: Names that its folder's description speaks of.
        providers: What there is to run it.

    Raises:
        ModelUnsupported: It cannot be run here, or is not the graph that is described.
    """
    opened = providers.open(file)
    try:
        graph = TensorGraph(opened, providers)
        _require_described(graph, file, tensors)
    except ModelUnsupported:
        providers.close(opened)
        raise
    return graph


def _require_described(graph: TensorGraph, file: GraphFile, tensors: Sequence[str]) -> None:
    known = {spec.name for spec in (*graph.inputs, *graph.outputs)}
    strange = sorted(set(tensors) - known)
    if strange:
        named = ", ".join(strange)
        raise ModelUnsupported(f"{file.path} has no input or output {named}, of which its description speaks.")


def _spec(value: Any) -> TensorSpec:
    datatype = _DATATYPES.get(value.type)
    if datatype is None:
        raise ModelUnsupported(f"`{value.name}` is {value.type}, which the Open Inference Protocol cannot carry.")
    shape = tuple(each if isinstance(each, int) and each >= 0 else None for each in value.shape)
    return TensorSpec(value.name, datatype, shape)

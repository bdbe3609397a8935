"""One graph from tensors to tensors, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from edge_runtime.generation.interruption import Interruption
from edge_runtime.generation.loaded_graph import ORT_ERRORS
from edge_runtime.residency.memory import give_back_freed
from inference_protocol.open_inference.datatypes import Datatype
from runtime_server.model_manifest import ModelUnsupported
from runtime_server.tensors.model import Arrays, TensorRunFailed, TensorSpec

OpenSession = Callable[[Path, int], ort.InferenceSession]
"""Opens a graph with so many threads; raises `ModelUnsupported` where it cannot."""

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
    """One session. Satisfies `runtime_server.tensors.model.TensorModel`."""

    def __init__(self, session: ort.InferenceSession) -> None:
        """Run this session.

        Raises:
            ModelUnsupported: It takes or gives something that the protocol cannot carry.
        """
        self.provider: str = session.get_providers()[0]
        self.inputs: Sequence[TensorSpec] = [_spec(value) for value in session.get_inputs()]
        self.outputs: Sequence[TensorSpec] = [_spec(value) for value in session.get_outputs()]
        self._session: ort.InferenceSession | None = session
        self._interruption = Interruption()

    def run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:  # noqa: D102  # see `TensorModel`
        assert self._session is not None, "it is not run once it is closed"
        self._interruption = Interruption()
        try:
            found = self._session.run(list(outputs), dict(inputs), self._interruption.options())
        except ORT_ERRORS as error:
            raise TensorRunFailed(type(error).__name__) from None
        return {name: np.asarray(each) for name, each in zip(outputs, found, strict=True)}

    def interrupt(self) -> None:  # noqa: D102  # see `TensorModel`
        self._interruption.set()

    def close(self) -> None:  # noqa: D102  # see `TensorModel`
        self._session = None
        give_back_freed()


def load_tensor_graph(path: Path, tensors: Sequence[str], open_session: OpenSession, threads: int) -> TensorGraph:
    """Load a graph.

    Args:
        path: Of a file that was verified.
        tensors: Names that its folder's description speaks of.
        open_session: Opens it.
        threads: Of a run.

    Raises:
        ModelUnsupported: It cannot be run here, or is not the graph that is described.
    """
    graph = TensorGraph(open_session(path, threads))
    known = {spec.name for spec in (*graph.inputs, *graph.outputs)}
    strange = sorted(set(tensors) - known)
    if strange:
        raise ModelUnsupported(f"{path} has no input or output {', '.join(strange)}, of which its description speaks.")
    return graph


def _spec(value: Any) -> TensorSpec:
    datatype = _DATATYPES.get(value.type)
    if datatype is None:
        raise ModelUnsupported(f"`{value.name}` is {value.type}, which the Open Inference Protocol cannot carry.")
    shape = tuple(each if isinstance(each, int) and each >= 0 else None for each in value.shape)
    return TensorSpec(value.name, datatype, shape)

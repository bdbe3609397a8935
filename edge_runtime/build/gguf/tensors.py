"""A GGUF file's weights as the graph's weights are read: its blocks as they stand."""

from __future__ import annotations

from edge_runtime.build.gguf.blocks import Floats, Matrix, read_floats, read_matrix
from edge_runtime.build.gguf.source import GgufSource


class GgufTensors:
    """`edge_runtime.build.gguf.weights.Tensors` over an open file."""

    def __init__(self, source: GgufSource) -> None:
        self._source = source

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:  # noqa: D102  # see `Tensors`
        return read_matrix(self._source.tensor(name, rows, columns))

    def floats(self, name: str, size: int) -> Floats:  # noqa: D102  # see `Tensors`
        return read_floats(self._source.tensor(name, size))

    def find_floats(self, name: str, size: int) -> Floats | None:  # noqa: D102  # see `Tensors`
        found = self._source.find_tensor(name, size)
        return None if found is None else read_floats(found)

    def __contains__(self, name: object) -> bool:
        """Whether the file has it; whoever asks reads it then."""
        return self._source.has_tensor(str(name))

    def unread(self) -> list[str]:  # noqa: D102  # see `Tensors`
        return self._source.unread_tensors()

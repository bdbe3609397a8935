"""A GGUF file's weights as the graph's weights are read: its blocks as they stand, and none that were lost."""

from __future__ import annotations

from edge_runtime.build.gguf.blocks import Blocks, Floats, Matrix, read_floats, read_matrix
from edge_runtime.build.gguf.source import GgufSource, Tensor
from edge_runtime.build.lost_content import require_filled, require_numbers

# Their last rows may stand for no token, and be zeros.
_VOCABULARY = ("token_embd.weight", "output.weight")


class GgufTensors:
    """`edge_runtime.build.gguf.weights.Tensors` over an open file."""

    def __init__(self, source: GgufSource) -> None:
        self._source = source

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:  # noqa: D102  # see `Tensors`
        tensor = self._source.tensor(name, rows, columns)
        matrix = read_matrix(tensor)
        require_filled(name, tensor.data, empty_rows=name in _VOCABULARY)
        require_numbers(name, *((matrix.scales, matrix.offsets) if isinstance(matrix, Blocks) else (matrix,)))
        return matrix

    def floats(self, name: str, size: int) -> Floats:  # noqa: D102  # see `Tensors`
        tensor = self._source.tensor(name, size)
        values = _numbers(tensor)
        require_filled(name, tensor.data)
        return values

    def find_floats(self, name: str, size: int) -> Floats | None:  # noqa: D102  # see `Tensors`
        found = self._source.find_tensor(name, size)
        return None if found is None else _numbers(found)

    def __contains__(self, name: object) -> bool:
        """Whether the file has it; whoever asks reads it then."""
        return self._source.has_tensor(str(name))

    def unread(self) -> list[str]:  # noqa: D102  # see `Tensors`
        return self._source.unread_tensors()


def _numbers(tensor: Tensor) -> Floats:
    values = read_floats(tensor)
    require_numbers(tensor.name, values)
    return values

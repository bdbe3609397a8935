"""A GGUF file's weights as the graph's weights are read: its blocks as they stand, and none that were lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.blocks import Blocks, Floats, Matrix, read_floats, read_matrix
from edge_runtime.build.gguf.source import GgufSource, Tensor

_PAGE = 4096
# Their last rows may stand for no token, and be zeros.
_VOCABULARY = ("token_embd.weight", "output.weight")


class GgufTensors:
    """`edge_runtime.build.gguf.weights.Tensors` over an open file."""

    def __init__(self, source: GgufSource) -> None:
        self._source = source

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:  # noqa: D102  # see `Tensors`
        tensor = self._source.tensor(name, rows, columns)
        matrix = read_matrix(tensor)
        _require_content(tensor)
        _require_numbers(name, *((matrix.scales, matrix.offsets) if isinstance(matrix, Blocks) else (matrix,)))
        return matrix

    def floats(self, name: str, size: int) -> Floats:  # noqa: D102  # see `Tensors`
        tensor = self._source.tensor(name, size)
        values = _numbers(tensor)
        _require_content(tensor)
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
    _require_numbers(tensor.name, values)
    return values


def _require_numbers(name: str, *parts: Floats | None) -> None:
    if not all(part is None or np.isfinite(part).all() for part in parts):
        raise NotImportable(f"The tensor `{name}` holds values that are no numbers: fetch the file again.")


def _require_content(tensor: Tensor) -> None:
    """Refuse what a download or a disk has lost: it reads as zeros, which compute without any fault."""
    content: NDArray[Any] = np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8)
    pages = content[: len(content) // _PAGE * _PAGE].reshape(-1, _PAGE)
    lost = tensor.name not in _VOCABULARY and not pages.any(axis=1).all()
    if lost or not content.any():
        raise NotImportable(
            f"The tensor `{tensor.name}` is filled with zeros: the download did not finish, or a disk lost it."
        )

"""What a broken download or disk leaves within a file of weights: zeros and values that are no numbers.

Both compute without any fault, so that a model with such a hole would answer, and answer badly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.blocks import Floats

_STRETCH = 2048  # bytes: half of a page, so that a page that was lost covers one wherever the tensor begins
_MOST_ZEROS = 64  # bytes, at the edge of a row beside an empty one; a block of nothing but zeros is shorter


def require_numbers(name: str, *parts: NDArray[np.floating[Any]] | Floats | None) -> None:
    """Refuse values that are no numbers.

    Raises:
        NotImportable: There are some; the tensor is named.
    """
    if not all(part is None or np.isfinite(part).all() for part in parts):
        raise NotImportable(f"The tensor `{name}` holds values that are no numbers: fetch the file again.")


def require_filled(name: str, stored: NDArray[Any], *, empty_rows: bool = False) -> None:
    """Refuse a tensor with a hole: a stretch of zeros, as it is stored.

    Args:
        name: Of the tensor.
        stored: Its bytes or values as they stand in the file, `[rows, …]`.
        empty_rows: Rows may be zeros as a whole, as an embedding's are for tokens that nobody uses. A hole is known
            then by an edge that is none of a row: it begins and ends where pages do.

    Raises:
        NotImportable: It has one; the tensor is named.
    """
    content: NDArray[np.uint8] = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
    stretches = content[: len(content) // _STRETCH * _STRETCH].reshape(-1, _STRETCH)
    lost = not content.any()
    if not lost and not stretches.any(axis=1).all():
        lost = not empty_rows or _is_ragged(content.reshape(len(stored), -1))
    if lost:
        raise NotImportable(
            f"The tensor `{name}` is filled with zeros: the download did not finish, or a disk lost it."
        )


def _is_ragged(rows: NDArray[np.uint8]) -> bool:
    """Whether zeros end within a row, or lie within one."""
    empty = _are_zeros(rows)
    if not empty.any():
        return True
    edge = min(_MOST_ZEROS, rows.shape[1] // 2)
    begins, ends = _are_zeros(rows[:, :edge]), _are_zeros(rows[:, -edge:])
    behind = empty[:-1] & begins[1:] & ~empty[1:]
    before = empty[1:] & ends[:-1] & ~empty[:-1]
    return bool(behind.any() or before.any())


def _are_zeros(rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.asarray(rows.max(axis=1, initial=0) == 0)

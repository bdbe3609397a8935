"""The keys and values of every slot, in memory that is committed only where tokens stand."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt


class KeyValueCache:
    """One array `[layers, key or value, slots, heads, window, head size]`.

    A run of slots of one layer is contiguous in it, which is what lets a graph read and write them in place. A cell
    past a slot's length holds anything.
    """

    def __init__(
        self, *, layers: int, slots: int, heads: int, window: int, head_size: int, dtype: npt.DTypeLike
    ) -> None:
        shape = (layers, 2, slots, heads, window, head_size)
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            # Every head's strip begins with tokens: pages of 2 MB, which NumPy asks for, would commit all of them.
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        self._cells: npt.NDArray[Any] = np.frombuffer(memory, dtype).reshape(shape)

    def keys(self, layer: int, first: int, last: int) -> npt.NDArray[Any]:
        """Return a view of the keys of slots `first` to `last - 1`, `[slots, heads, window, head size]`."""
        return self._cells[layer, 0, first:last]

    def values(self, layer: int, first: int, last: int) -> npt.NDArray[Any]:
        """Return a view of the values, as `keys` does of the keys."""
        return self._cells[layer, 1, first:last]

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one slot over another."""
        self._cells[:, :, target, :, :length] = self._cells[:, :, source, :, :length]

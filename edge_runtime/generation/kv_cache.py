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
        self._memory = memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
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

    def exchange(self, one: int, its_length: int, other: int, other_length: int) -> None:
        """Let two slots change places, layer by layer, so that little memory is needed for it."""
        for cells in self._cells.reshape(-1, *self._cells.shape[2:]):  # a view: `[layers × 2, slots, …]`
            kept = cells[one, :, :its_length].copy()
            cells[one, :, :other_length] = cells[other, :, :other_length]
            cells[other, :, :its_length] = kept

    def release(self, slot: int) -> None:
        """Give a slot's memory back to the system; it reads as zeros then."""
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        page, size = mmap.PAGESIZE, self._cells[0, 0, 0].nbytes
        for strip in range(slot * size, self._cells.nbytes, self._cells.shape[2] * size):
            begin, end = -(-strip // page) * page, (strip + size) // page * page  # whole pages of this slot alone
            if end > begin:
                self._memory.madvise(mmap.MADV_DONTNEED, begin, end - begin)

    def read(self, slot: int, begin: int, end: int) -> npt.NDArray[Any]:
        """Return a copy of some tokens' keys and values, `[layers, 2, heads, tokens, head size]`."""
        return self._cells[:, :, slot, :, begin:end].copy()

    def write(self, slot: int, begin: int, cells: npt.NDArray[Any]) -> None:
        """Put back what `read` returned."""
        self._cells[:, :, slot, :, begin : begin + cells.shape[3]] = cells

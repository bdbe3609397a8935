"""The `gguf` package's reader, kept from believing what a file says of its own sizes.

A count or a length in a damaged file can be anything, and the package would go on reading until the memory is full.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from gguf import GGUFReader, GGUFValueType
from numpy.typing import DTypeLike, NDArray

_LONGEST_LIST = 1 << 21  # eight times the largest vocabulary there is
_LENGTH_AT = 4  # of a list: behind the type of its entries


class BoundedReader(GGUFReader):  # type: ignore[misc]  # the package has no types
    """Raises `ValueError` where a file says that it holds what it cannot."""

    def _get(
        self,
        offset: int,
        dtype: DTypeLike,
        count: int = 1,
        override_order: Literal["I", "S", "<"] | None = None,
    ) -> NDArray[Any]:
        end = int(offset) + np.dtype(dtype).itemsize * int(count)
        if end > len(self.data):
            raise ValueError(f"it ends at byte {len(self.data)}, and what it says it holds goes on to byte {end}")
        found: NDArray[Any] = super()._get(offset, dtype, count, override_order)
        return found

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
        if raw_type == GGUFValueType.ARRAY:
            kind = int(self._get(orig_offs, np.uint32)[0])
            length = int(self._get(orig_offs + _LENGTH_AT, np.uint64)[0])
            if kind == GGUFValueType.ARRAY or length > _LONGEST_LIST:
                raise ValueError(f"a list among its keys has {length} entries of type {kind}")
        return super()._get_field_parts(orig_offs, raw_type)

    def require_apart(self) -> None:
        """Refuse tensors that share bytes: every writer puts one behind the other.

        Raises:
            ValueError: Two overlap, or one does not begin where one may.
        """
        end = 0
        for tensor in sorted(self.tensors, key=lambda tensor: tensor.data_offset):
            if tensor.data_offset < end or tensor.data_offset % self.alignment:
                raise ValueError(f"the tensor `{tensor.name}` begins within another one or beside where one may")
            end = tensor.data_offset + tensor.n_bytes

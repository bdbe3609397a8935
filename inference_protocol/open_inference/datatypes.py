"""The types of tensors that the protocol can carry."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Datatype(StrEnum):
    """A type by the protocol's name."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"

    @property
    def size(self) -> int | None:
        """Bytes of an element; `None` where each has a length of its own."""
        return _SIZES.get(self)

    @property
    def span(self) -> tuple[int, int] | None:
        """The least and the greatest value of a type of whole numbers."""
        size = self.size
        if size is None or self is Datatype.BOOL or self in FLOATS:
            return None
        bits = 8 * size
        return (0, 2**bits - 1) if self.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_SIZES: Mapping[Datatype, int] = {
    Datatype.BOOL: 1,
    Datatype.UINT8: 1,
    Datatype.UINT16: 2,
    Datatype.UINT32: 4,
    Datatype.UINT64: 8,
    Datatype.INT8: 1,
    Datatype.INT16: 2,
    Datatype.INT32: 4,
    Datatype.INT64: 8,
    Datatype.FP16: 2,
    Datatype.FP32: 4,
    Datatype.FP64: 8,
}
FLOATS = frozenset({Datatype.FP16, Datatype.FP32, Datatype.FP64})

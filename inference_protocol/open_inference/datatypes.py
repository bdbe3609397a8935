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
    def span(self) -> tuple[float, float] | None:
        """The least and the greatest finite value of a type of numbers, whole ones for types of those."""
        return _SPANS.get(self)


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
_SPANS: Mapping[Datatype, tuple[float, float]] = {
    **{Datatype(f"UINT{bits}"): (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    **{Datatype(f"INT{bits}"): (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    Datatype.FP32: (-3.4028234663852886e38, 3.4028234663852886e38),
    Datatype.FP64: (-1.7976931348623157e308, 1.7976931348623157e308),
}
FLOATS = frozenset({Datatype.FP16, Datatype.FP32, Datatype.FP64})

"""GGUF's types of quantized blocks, each as integers with a scale and, where the type has a minimum, an offset.

Every type here says `w = scale · (code − zero) + offset` with a scale and an offset that are constant in a block of 16
or 32 weights. `MatMulNBits` computes the first half without a zero point of its own, since 2^(bits − 1) is its default;
five- and six-bit codes fit in its eight bits. The offset is left to the graph.

Layouts: ggml's `block_q4_0` and so on, https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.source import Tensor

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
_HALF, _LOW_HALF = np.uint8(4), np.uint8(15)  # of a byte: bits to shift, bits to keep


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A matrix `[rows, columns]` whose rows are cut into blocks.

    Attributes:
        bits: Of a code as the graph stores it: 4 or 8.
        codes: `[rows, blocks, block size]`, 0 to 2^bits − 1; `zero` stands for no weight but the offset.
        scales: `[rows, blocks]`.
        offsets: `[rows, blocks]`, or `None` where all are 0.
    """

    bits: int
    codes: Bytes
    scales: Floats
    offsets: Floats | None

    @property
    def zero(self) -> int:
        """The code of 0, which `MatMulNBits` and `GatherBlockQuantized` take by default."""
        return 1 << (self.bits - 1)

    @property
    def layout(self) -> tuple[int, int]:
        """Bits and block size: matrices that agree in it can be one."""
        return self.bits, self.codes.shape[2]

    def values(self) -> Floats:
        """Return what the graph computes with, `[rows, columns]`."""
        weights = (self.codes.astype(np.float32) - self.zero) * self.scales[..., None]
        if self.offsets is not None:
            weights += self.offsets[..., None]
        return weights.reshape(len(weights), -1)

    def packed(self) -> Bytes:
        """Return the codes as the graph reads them, `[rows, blocks, bytes]`: of two in a byte, the first is low."""
        return self.codes if self.bits == 8 else self.codes[..., 0::2] | self.codes[..., 1::2] << _HALF


Matrix = Blocks | Floats | NDArray[np.float16]


def read_matrix(tensor: Tensor) -> Blocks | Floats:
    """Return a matrix of weights: blocks, or float32 values for the types without blocks.

    Raises:
        NotImportable: The type is not supported.
    """
    if tensor.kind in (GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16):
        return read_floats(tensor)
    read = _READERS.get(tensor.kind)
    if read is None:
        known = ", ".join(
            kind.name
            for kind in (*_READERS, GGMLQuantizationType.F16, GGMLQuantizationType.BF16, GGMLQuantizationType.F32)
        )
        raise NotImportable(f"The tensor `{tensor.name}` is {tensor.kind.name}; supported are {known}.")
    weights, size = GGML_QUANT_SIZES[tensor.kind]
    rows, columns = tensor.shape
    with np.errstate(invalid="ignore"):  # whether a scale is a number is the caller's to look at
        return read(np.asarray(tensor.data).reshape(rows, columns // weights, size))


def read_floats(tensor: Tensor) -> Floats:
    """Return the values of a tensor that is not quantized.

    Raises:
        NotImportable: It is.
    """
    data = np.asarray(tensor.data)
    if tensor.kind is GGMLQuantizationType.BF16:
        data = (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif tensor.kind not in (GGMLQuantizationType.F32, GGMLQuantizationType.F16):
        raise NotImportable(
            f"The tensor `{tensor.name}` is {tensor.kind.name} where only F32, F16 or BF16 is supported."
        )
    return data.reshape(tensor.shape).astype(np.float32)


def concatenate(parts: list[Matrix]) -> Matrix | None:
    """Return matrices below one another as one, or nothing where their layouts differ."""
    blocks = [part for part in parts if isinstance(part, Blocks)]
    if not blocks:
        return np.concatenate([part for part in parts if not isinstance(part, Blocks)])
    if len(blocks) < len(parts) or len({part.layout for part in blocks}) > 1:
        return None
    offsets = None
    if any(part.offsets is not None for part in blocks):
        each = (np.zeros_like(part.scales) if part.offsets is None else part.offsets for part in blocks)
        offsets = np.concatenate(list(each))
    codes, scales = (np.concatenate([getattr(part, name) for part in blocks]) for name in ("codes", "scales"))
    return Blocks(blocks[0].bits, codes, scales, offsets)


def reorder_rows(matrix: Matrix, order: NDArray[np.intp]) -> Matrix:
    """Return the rows of a matrix in another order."""
    if not isinstance(matrix, Blocks):
        return matrix[order]
    offsets = None if matrix.offsets is None else matrix.offsets[order]
    return replace(matrix, codes=matrix.codes[order], scales=matrix.scales[order], offsets=offsets)


def _half(raw: Bytes, at: int) -> Floats:
    """Return the float16 at a byte of each block, `[rows, blocks]`."""
    return raw[..., at : at + 2].copy().view(np.float16)[..., 0].astype(np.float32)


def _nibbles(raw: Bytes) -> Bytes:
    """Return the low halves of some bytes, then their high halves."""
    return np.concatenate([raw & _LOW_HALF, raw >> _HALF], axis=-1)


def _fifth_bits(raw: Bytes) -> Bytes:
    """Return 32 bits of four little-endian bytes, each as 0 or 16."""
    return np.unpackbits(raw, axis=-1, bitorder="little") << _HALF


def _of_levels(levels: Bytes, bits: int, scales: Floats, minima: Floats | None) -> Blocks:
    """Build blocks of `w = scale · level + minimum`, or `scale · (level − middle)` where there is no minimum.

    Codes are centred: half of the range goes into the offset, which leaves the smallest numbers to the kernel that
    rounds its other factor to eight bits.
    """
    middle = 1 << (bits - 1)
    offsets = None if minima is None else minima + scales * np.float32(middle)
    if bits == 4:
        return Blocks(4, levels, scales, offsets)
    return Blocks(8, levels + np.uint8(128 - middle), scales, offsets)


def _q4_0(raw: Bytes) -> Blocks:
    return _of_levels(_nibbles(raw[..., 2:]), 4, _half(raw, 0), None)


def _q4_1(raw: Bytes) -> Blocks:
    return _of_levels(_nibbles(raw[..., 4:]), 4, _half(raw, 0), _half(raw, 2))


def _q5_0(raw: Bytes) -> Blocks:
    return _of_levels(_nibbles(raw[..., 6:]) | _fifth_bits(raw[..., 2:6]), 5, _half(raw, 0), None)


def _q5_1(raw: Bytes) -> Blocks:
    return _of_levels(_nibbles(raw[..., 8:]) | _fifth_bits(raw[..., 4:8]), 5, _half(raw, 0), _half(raw, 2))


def _q8_0(raw: Bytes) -> Blocks:
    return Blocks(8, raw[..., 2:] ^ np.uint8(128), _half(raw, 0), None)  # two's complement to an offset of 128


def _scales_and_minima(raw: Bytes) -> tuple[Floats, Floats]:
    """Return scales and minima of the eight blocks of 32 in a Q4_K or Q5_K block of 256, `[rows, blocks × 8]`.

    Twelve bytes hold eight pairs of six bits: the first four pairs in the low bits of bytes 0 to 7; of the others, the
    low four bits in bytes 8 to 11 and the high two on top of bytes 0 to 7.
    """
    low, middle, high = (raw[..., at : at + 4] for at in (4, 8, 12))
    scale = np.concatenate([low & 63, (high & 15) | (low >> 6 << 4)], axis=-1)
    minimum = np.concatenate([middle & 63, (high >> 4) | (middle >> 6 << 4)], axis=-1)
    rows = len(raw)
    scales = _half(raw, 0)[..., None] * scale
    minima = -_half(raw, 2)[..., None] * minimum
    return scales.astype(np.float32).reshape(rows, -1), minima.astype(np.float32).reshape(rows, -1)


def _q4_k(raw: Bytes) -> Blocks:
    levels = _nibbles(raw[..., 16:].reshape(*raw.shape[:2], 4, 32))
    return _of_levels(levels.reshape(len(raw), -1, 32), 4, *_scales_and_minima(raw))


def _q5_k(raw: Bytes) -> Blocks:
    levels = _nibbles(raw[..., 48:].reshape(*raw.shape[:2], 4, 32)).reshape(*raw.shape[:2], 8, 32)
    # Bit n of the 32 bytes in front is the fifth bit of the n-th block.
    fifth = _bits_of(raw[..., 16:48], width=1)
    return _of_levels((levels | fifth << _HALF).reshape(len(raw), -1, 32), 5, *_scales_and_minima(raw))


def _q6_k(raw: Bytes) -> Blocks:
    # Two halves of 128 weights. In each, 64 bytes give the low four bits and 32 bytes the high two, of four runs of 32.
    low = _nibbles(raw[..., :128].reshape(*raw.shape[:2], 2, 64)).reshape(*raw.shape[:2], 2, 4, 32)
    high = _bits_of(raw[..., 128:192].reshape(*raw.shape[:2], 2, 32), width=2)
    levels = (low | high << _HALF).reshape(len(raw), -1, 16)
    scales = _half(raw, 208)[..., None] * raw[..., 192:208].view(np.int8)
    return _of_levels(levels, 6, scales.astype(np.float32).reshape(len(raw), -1), None)


def _bits_of(raw: Bytes, width: int) -> Bytes:
    """Cut bytes `[…, n]` into fields of `width` bits, the lowest first: `[…, fields, n]`."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    return (raw[..., None, :] >> shifts) & np.uint8((1 << width) - 1)


_READERS: dict[GGMLQuantizationType, Callable[[Bytes], Blocks]] = {
    GGMLQuantizationType.Q4_0: _q4_0,
    GGMLQuantizationType.Q4_1: _q4_1,
    GGMLQuantizationType.Q5_0: _q5_0,
    GGMLQuantizationType.Q5_1: _q5_1,
    GGMLQuantizationType.Q8_0: _q8_0,
    GGMLQuantizationType.Q4_K: _q4_k,
    GGMLQuantizationType.Q5_K: _q5_k,
    GGMLQuantizationType.Q6_K: _q6_k,
}

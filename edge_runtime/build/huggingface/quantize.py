"""Floats to blocks, with as small an error as one scale and one offset a block allow.

four bits    w ≈ scale · (code − 8) + offset      scale and offset by least squares
eight bits   w ≈ scale · (code − 128)             scale by the largest weight of the block
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge_runtime.build.gguf.blocks import Blocks, Floats

BLOCK = 32
_ROWS_AT_ONCE = 1024
_LEVELS = 15  # of four bits, above the lowest
# Shares of a block's range that its codes are spread over at first: cutting off the ends costs them and helps the rest.
_RANGES = (1.0, 0.95, 0.9, 0.85, 0.8)
_REFITS = 2
_TINY = np.float32(1e-20)


def quantize(weights: Floats, bits: int) -> Blocks:
    """Quantize a matrix `[rows, columns]`; columns are a multiple of the block size. `bits` is 4 or 8."""
    fit = _four_bits if bits == 4 else _eight_bits
    rows, columns = weights.shape
    parts = [
        fit(weights[at : at + _ROWS_AT_ONCE].reshape(-1, columns // BLOCK, BLOCK))
        for at in range(0, rows, _ROWS_AT_ONCE)
    ]
    codes, scales, offsets = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Blocks(bits, codes, scales, offsets if bits == 4 else None)


def _eight_bits(blocks: Floats) -> tuple[NDArray[np.uint8], Floats, Floats]:
    scales = np.abs(blocks).max(-1) / np.float32(127)
    codes = np.rint(blocks / np.maximum(scales, _TINY)[..., None]) + np.float32(128)
    return codes.astype(np.uint8), scales, np.zeros_like(scales)


def _four_bits(blocks: Floats) -> tuple[NDArray[np.uint8], Floats, Floats]:
    """Try some ranges, refit each by least squares, and keep what errs least."""
    low, high = blocks.min(-1), blocks.max(-1)
    best_error = np.full(low.shape, np.inf, np.float32)
    best_scale, best_floor = np.zeros_like(low), low.copy()
    for share in _RANGES:
        cut = (high - low) * np.float32((1 - share) / 2)
        scale, floor = (high - low - 2 * cut) / np.float32(_LEVELS), low + cut
        for refit in range(_REFITS + 1):
            levels = _levels(blocks, scale, floor)
            error = np.square(levels * scale[..., None] + floor[..., None] - blocks).sum(-1)
            better = error < best_error
            best_error = np.where(better, error, best_error)
            best_scale, best_floor = np.where(better, scale, best_scale), np.where(better, floor, best_floor)
            if refit < _REFITS:
                scale, floor = _least_squares(blocks, levels, scale)
    codes = _levels(blocks, best_scale, best_floor).astype(np.uint8)
    return codes, best_scale, best_floor + np.float32(8) * best_scale


def _levels(blocks: Floats, scale: Floats, floor: Floats) -> Floats:
    steps = (blocks - floor[..., None]) / np.maximum(scale, _TINY)[..., None]
    levels: Floats = np.clip(np.rint(steps), 0, _LEVELS)
    return levels


def _least_squares(blocks: Floats, levels: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return the line through (level, weight) of each block; where all levels are one, the old scale."""
    level, weight = levels.mean(-1), blocks.mean(-1)
    spread = np.square(levels - level[..., None]).sum(-1)
    joint = ((levels - level[..., None]) * (blocks - weight[..., None])).sum(-1)
    slope = np.where(spread > 0, joint / np.maximum(spread, _TINY), scale)
    slope = np.where(slope > 0, slope, scale)
    return slope, weight - slope * level

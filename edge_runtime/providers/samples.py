"""Inputs to try a graph with, where nobody knows better: numbers as they come out of a normal distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Feeds = dict[str, NDArray[Any]]
Samples = Callable[[int], Feeds]
"""From a batch size to inputs; the same ones each time."""

_LENGTH = 64  # of every free dimension but the first: convolutions of pictures need about as much
_TYPES: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(int16)": np.int16,
    "tensor(uint16)": np.uint16,
    "tensor(int32)": np.int32,
    "tensor(uint32)": np.uint32,
    "tensor(int64)": np.int64,
    "tensor(uint64)": np.uint64,
    "tensor(bool)": np.bool_,
}


class NoSamples(ValueError):
    """Nothing can be made up for an input; the message names it."""


def made_up(inputs: Sequence[tuple[str, str, Sequence[int | str | None]]]) -> Samples:
    """Return inputs for a graph that takes these: name, type, shape.

    Integers are small, since they are often indices; what is called a mask lets everything through.

    Raises:
        NoSamples: An input takes a type that nothing is made up for.
    """
    for name, kind, _ in inputs:
        if kind not in _TYPES:
            raise NoSamples(f"nothing can be made up for the input `{name}` of type {kind}")

    def samples(batch: int) -> Feeds:
        rng = np.random.default_rng(batch)
        return {name: _values(rng, name, _TYPES[kind], _sizes(shape, batch)) for name, kind, shape in inputs}

    return samples


def _sizes(shape: Sequence[int | str | None], batch: int) -> list[int]:
    free = batch if shape and not isinstance(shape[0], int) else _LENGTH
    first = [shape[0] if shape and isinstance(shape[0], int) else free] if shape else []
    return [*first, *(size if isinstance(size, int) else _LENGTH for size in shape[1:])]


def _values(rng: np.random.Generator, name: str, kind: type[np.generic], sizes: list[int]) -> NDArray[Any]:
    if np.issubdtype(kind, np.floating):
        return rng.standard_normal(sizes).astype(kind)
    if kind is np.bool_ or "mask" in name.lower():
        return np.ones(sizes, kind)
    return rng.integers(0, 2, sizes).astype(kind)

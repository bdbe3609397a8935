"""Finding the few largest of many numbers, without sorting them all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GROUP = 64


def at_least_as_large(values: NDArray[np.floating], count: int) -> float:
    """Return a bound that no fewer than `count` values reach, and as a rule not many more.

    Of groups of values, `count` have a largest value that reaches the `count`-th largest of those.

    Args:
        values: Shape `[n]`.
        count: From 1 to n.
    """
    groups = len(values) // _GROUP
    if count > groups:
        return -np.inf
    # A group's values stand a stride apart: NumPy compares whole rows several times as fast as it does within one.
    best = values[: groups * _GROUP].reshape(_GROUP, groups).max(axis=0)
    return float(np.partition(best, groups - count)[groups - count])


def largest(values: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """Return the places of the `count` largest values, largest first, and of equals the first one first."""
    if count == 0:
        return np.empty(0, np.intp)
    places = np.flatnonzero(values >= at_least_as_large(values, min(count, len(values))))
    order = np.argsort(-values[places], kind="stable")
    return places[order[:count]]

"""How fast this box reads memory: what a token costs at least, since it reads every weight once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

_BYTES = 512 << 20  # far larger than any cache


def read_gb_per_s(threads: int, rounds: int = 5) -> float:
    """The best of a few rounds of summing an array in `threads` parts; NumPy lets go of the interpreter meanwhile."""
    parts = np.array_split(np.ones(_BYTES // 8, np.int64), threads)
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(rounds):
            began = time.perf_counter()
            list(pool.map(np.sum, parts))
            best = max(best, _BYTES / (time.perf_counter() - began) / 1e9)
    return best

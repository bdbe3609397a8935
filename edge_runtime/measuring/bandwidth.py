"""How fast this machine reads memory: the ceiling of decoding, which reads every weight for every token."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from edge_runtime.residency.memory import available_bytes

_WANTED_BYTES = 1 << 30  # several times the last cache of most machines
_ROUNDS = 5


def measure_bandwidth(threads: int) -> float:
    """Return the bytes a second that all threads together read, at best of some rounds.

    Args:
        threads: As many as decoding uses.
    """
    room = available_bytes()
    total = _WANTED_BYTES if room is None else min(_WANTED_BYTES, room // 4)
    parts = [np.ones(total // threads // 8, np.int64) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        return max(_read_all(pool, parts) for _ in range(_ROUNDS))


def _read_all(pool: ThreadPoolExecutor, parts: list[np.ndarray]) -> float:
    began = time.perf_counter()
    list(pool.map(_read, parts))
    return sum(part.nbytes for part in parts) / (time.perf_counter() - began)


def _read(part: np.ndarray) -> None:
    # As integers of 32 bits: NumPy's loop for their maximum is vectorized and does less than memory can deliver.
    np.maximum.reduce(part.view(np.int32))

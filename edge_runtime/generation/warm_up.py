"""A fraction of a second of real runs when a model is loaded: how fast it is here, and how much to read at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from edge_runtime.generation.graph import Graph
from runtime_server.speed_meter import SpeedMeter

LONGEST_STALL_S = 0.2
LARGEST_CHUNK = 128
SMALLEST_CHUNK = 16
_PROMPT_TOKENS = 64
_RUNS = 3


def warm_up(graph: Graph, *, window: int, clock: Callable[[], float]) -> SpeedMeter:
    """Measure prefill and decode at some batch sizes, which also lets the kernels allocate what they will need.

    Raises:
        GraphRunFailed: The graph cannot be run as it should be.
    """
    tokens = [0] * min(_PROMPT_TOKENS, window - 1)
    prefill_s = _best_of_runs(lambda: graph.prefill(0, tokens, 0), clock)
    ms_per_token = {}
    for rows in _batch_sizes(graph.slots):
        decode = functools.partial(graph.decode, [0] * rows, [len(tokens)] * rows)
        ms_per_token[rows] = _best_of_runs(decode, clock) * 1000
    return SpeedMeter(prefill_tokens_per_s=len(tokens) / prefill_s, ms_per_token=ms_per_token)


def choose_chunk(prefill_tokens_per_s: float) -> int:
    """Return the largest power of two of prompt tokens that stalls running requests no longer than is bearable.

    It is fixed once chosen: where a prompt is cut moves the last bits of its logits, and a seed should repeat.
    """
    chunk = LARGEST_CHUNK
    while chunk > SMALLEST_CHUNK and chunk > prefill_tokens_per_s * LONGEST_STALL_S:
        chunk //= 2
    return chunk


def _batch_sizes(slots: int) -> Iterator[int]:
    """Yield 1, 2, 4, … below `slots`, and `slots`."""
    size = 1
    while size < slots:
        yield size
        size *= 2
    yield slots


def _best_of_runs(run: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the seconds of the fastest run: at a start the machine is often busy with other things that start too."""
    run()  # pays for allocations
    seconds = []
    for _ in range(_RUNS):
        began = clock()
        run()
        seconds.append(clock() - began)
    return min(seconds)

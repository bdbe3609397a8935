"""A second of real runs when a model is loaded: how fast it is here, and how much of a prompt to read at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from edge_runtime.generation.graph import Graph
from runtime_server.speed_meter import SpeedMeter

LONGEST_STALL_S = 0.5
CHUNKS = (16, 64, 128)  # larger ones read no faster and take more memory
_CACHED_TOKENS = 64
_RUNS = 3
_WORTHWHILE = 1.1
_CHECKED_TOKENS = 4
_ALIKE = 1e-4  # of the top logit: the order in which floats are added


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found.

    Attributes:
        speed: Of prefill in chunks and of decode at some batch sizes.
        chunk: Most prompt tokens to read in one run. It is fixed once chosen: where a prompt is cut moves the last bits
            of its logits, and a seed should repeat.
        checks_agree: Whether several tokens that are read at once give the logits that each gives alone. They do not
            where activations are rounded: the last bit of what is rounded decides, and rounding grows it.
    """

    speed: SpeedMeter
    chunk: int
    checks_agree: bool


def warm_up(graph: Graph, *, window: int, clock: Callable[[], float]) -> Measured:
    """Measure prefill and decode, which also lets the kernels allocate what they will need.

    Raises:
        GraphRunFailed: The graph cannot be run as it should be.
    """
    chunk, tokens_per_s = _measure_prefill(graph, window, clock)
    ms_per_token = {}
    cached = min(_CACHED_TOKENS, window - 1)
    for rows in _batch_sizes(graph.slots):
        decode = functools.partial(graph.decode, [0] * rows, [cached] * rows)
        ms_per_token[rows] = _best_of_runs(decode, clock) * 1000
    return Measured(
        SpeedMeter(prefill_tokens_per_s=tokens_per_s, ms_per_token=ms_per_token), chunk, _checks_agree(graph)
    )


def worthwhile_slots(ms_per_token: Mapping[int, float]) -> int:
    """Return how many rows a step should have at most: twice as many must give a tenth more tokens a second.

    Args:
        ms_per_token: Rows to milliseconds of a step.
    """
    best, *larger = sorted(ms_per_token)
    for rows in larger:
        if rows / ms_per_token[rows] < _WORTHWHILE * best / ms_per_token[best]:
            break
        best = rows
    return best


def _measure_prefill(graph: Graph, window: int, clock: Callable[[], float]) -> tuple[int, float]:
    """Return the largest chunk that stalls running requests no longer than is bearable, and its tokens per second.

    Larger ones are tried only after smaller ones, so that a slow machine is not kept from its start.
    """
    best = (CHUNKS[0], 0.0)
    for chunk in CHUNKS:
        tokens = [0] * min(chunk, window - 1)
        seconds = _best_of_runs(functools.partial(graph.read, 0, tokens, 0, (len(tokens) - 1,)), clock)
        if seconds > LONGEST_STALL_S and chunk > CHUNKS[0]:
            break
        best = (chunk, len(tokens) / seconds)
        if len(tokens) < chunk:
            break
    return best


def _checks_agree(graph: Graph) -> bool:
    if not graph.can_verify:
        return False
    tokens = range(1, 1 + _CHECKED_TOKENS)
    each = np.concatenate([graph.decode([token], [at]).copy() for at, token in enumerate(tokens)])
    top = np.abs(each.max(axis=-1)).max()  # the least likely may be far off: a graph can rule tokens out
    return bool(np.abs(graph.verify(tokens, 0) - each).max() <= _ALIKE * top)


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

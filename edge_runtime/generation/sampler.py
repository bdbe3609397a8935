"""Choosing the next token of one request from its logits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inference_protocol.sampling import Sampling

Logits = NDArray[np.float32]


class NonFiniteLogits(ValueError):
    """The logits hold a NaN or an infinity on top: whatever was chosen from them would be noise."""


class Sampler:
    """One request's way of choosing tokens, with its own source of randomness.

    Each token costs exactly one uniform draw, and tokens are laid out by id, so a seed repeats an answer whatever else
    runs, as long as the logits move by no more than rounding.
    """

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        seed = None if sampling.seed is None else sampling.seed % (1 << 64)
        self._random = np.random.Generator(np.random.PCG64(seed))

    def next(self, logits: Logits) -> int:
        """Return a token id.

        Args:
            logits: Shape `[vocabulary]`; left as they are.

        Raises:
            NonFiniteLogits: No token can be chosen.
        """
        likeliest = int(logits.argmax())  # a NaN counts as the largest, so it cannot hide behind a finite one
        top = logits[likeliest]
        if not np.isfinite(top):
            raise NonFiniteLogits
        if self._sampling.is_greedy:
            return likeliest
        tokens, logits = _keep_top_k(logits, self._sampling.top_k)
        weights = np.exp((logits.astype(np.float64) - top) / self._sampling.temperature)
        tokens, weights = _keep_top_p(tokens, weights, self._sampling.top_p)
        reached = np.cumsum(weights)
        chosen = np.searchsorted(reached, self._random.random() * reached[-1], side="right")
        return int(tokens[min(int(chosen), len(tokens) - 1)])


def _keep_top_k(logits: Logits, top_k: int) -> tuple[NDArray[np.intp], Logits]:
    """Return ids and logits of the `top_k` likeliest tokens, by id; all of them where `top_k` is 0."""
    if top_k == 0 or top_k >= len(logits):
        return np.arange(len(logits)), logits
    kept = np.sort(np.argpartition(logits, -top_k)[-top_k:])
    return kept, logits[kept]


def _keep_top_p(
    tokens: NDArray[np.intp], weights: NDArray[np.float64], top_p: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Keep the smallest set of tokens whose share of the weight reaches `top_p` (nucleus sampling, arXiv:1904.09751).

    Tokens lighter than `(1 − top_p) / n` of the whole weigh no more than `1 − top_p` together, so none of them is in
    the nucleus: leaving them out first spares sorting the vocabulary.
    """
    if top_p >= 1.0:
        return tokens, weights
    total = weights.sum()
    candidates = np.flatnonzero(weights > total * (1.0 - top_p) / len(weights))
    heaviest_first = candidates[np.argsort(-weights[candidates], kind="stable")]
    size = int(np.searchsorted(np.cumsum(weights[heaviest_first]), total * top_p)) + 1
    nucleus = np.sort(heaviest_first[:size])
    return tokens[nucleus], weights[nucleus]

"""Choosing the next token of one request from its logits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from inference_protocol.sampling import Sampling
from runtime_server.choosing.likeliest import at_least_as_large

Logits = NDArray[np.float32]
_GROUP = 64
# Shares of the likeliest token's weight, above which the nucleus is looked for, one after the other.
_NUCLEUS_BOUNDS = (1e-2, 1e-4)


class NonFiniteLogits(ValueError):
    """The logits hold a NaN or an infinity on top: whatever was chosen from them would be noise."""


class Sampler:
    """One request's way of choosing tokens, with its own source of randomness.

    Which parameters are set decides alone how many uniform draws a token costs, and tokens are laid out in a fixed
    order. So a seed repeats an answer whatever else runs, as long as the logits move by no more than rounding.
    """

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        seed = None if sampling.seed is None else sampling.seed % (1 << 64)
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._weights = np.zeros(0, np.float32)

    def next(self, logits: Logits) -> int:
        """Return a token id.

        Args:
            logits: Shape `[vocabulary]`; left as they are. What may not be chosen is minus infinity.

        Raises:
            NonFiniteLogits: No token can be chosen.
        """
        likeliest = int(logits.argmax())  # a NaN counts as the largest, so it cannot hide behind a finite one
        top = float(logits[likeliest])
        if not np.isfinite(top):
            raise NonFiniteLogits
        if self._sampling.is_greedy:
            return likeliest
        if self._sampling.min_p > 0.0 or 0 < self._sampling.top_k < len(logits):
            return self._from_few(logits, top, self._least_logit(logits, top))
        return self._from_all(logits, top)

    def _least_logit(self, logits: Logits, top: float) -> float:
        """Return a logit below which nothing is chosen, by `min_p` and `top_k`."""
        sampling = self._sampling
        bound = -np.inf
        if sampling.min_p > 0.0:
            # p ≥ min_p · p(likeliest), after temperature, is z ≥ z(likeliest) + T · ln(min_p) (arXiv:2407.01082)
            bound = top + sampling.temperature * float(np.log(sampling.min_p))
        if 0 < sampling.top_k < len(logits):
            bound = max(bound, at_least_as_large(logits, sampling.top_k))
        return bound

    def _from_few(self, logits: Logits, top: float, bound: float) -> int:
        tokens = np.flatnonzero(logits >= np.float32(bound))
        top_k = self._sampling.top_k
        if 0 < top_k < len(tokens):
            tokens = np.sort(tokens[np.argpartition(logits[tokens], -top_k)[-top_k:]])
        weights = np.exp((logits[tokens].astype(np.float64) - top) / self._sampling.temperature)
        if self._sampling.top_p < 1.0:
            nucleus = _nucleus(weights, weights.sum() * self._sampling.top_p)
            tokens, weights = tokens[nucleus], weights[nucleus]
        return self._draw(tokens, weights)

    def _from_all(self, logits: Logits, top: float) -> int:
        size = len(logits)
        if len(self._weights) < size:
            self._weights = np.zeros(-(-size // _GROUP) * _GROUP, np.float32)
        weights = self._weights[:size]
        np.subtract(logits, np.float32(top), out=weights)
        np.multiply(weights, np.float32(1.0 / self._sampling.temperature), out=weights)
        np.exp(weights, out=weights)
        if self._sampling.top_p < 1.0:
            wanted = float(weights.sum()) * self._sampling.top_p
            tokens = _holding_nucleus(weights, wanted)
            found = weights[tokens].astype(np.float64)
            nucleus = _nucleus(found, wanted)
            return self._draw(tokens[nucleus], found[nucleus])
        # First a group of tokens, then one of it: a running sum over the vocabulary costs more than all the rest.
        groups = self._weights.reshape(_GROUP, -1)
        group = self._draw(np.arange(groups.shape[1]), groups.sum(axis=0))
        return self._draw(np.arange(group, len(self._weights), groups.shape[1]), groups[:, group])

    def _draw(self, tokens: NDArray[np.intp], weights: NDArray[np.floating]) -> int:
        reached = np.cumsum(weights, dtype=np.float64)
        total = float(reached[-1])
        # Below the total also where the product is rounded up: what stands last may weigh nothing.
        point = min(self._random.random() * total, math.nextafter(total, 0.0))
        return int(tokens[np.searchsorted(reached, point, side="right")])


def _holding_nucleus(weights: NDArray[np.float32], wanted: float) -> NDArray[np.intp]:
    """Return tokens among which the nucleus is, by id: all above some weight, if they reach what is wanted together."""
    for bound in _NUCLEUS_BOUNDS:
        tokens = np.flatnonzero(weights > np.float32(bound))
        if weights[tokens].sum(dtype=np.float64) > wanted:
            return tokens
    return np.flatnonzero(weights)


def _nucleus(weights: NDArray[np.float64], wanted: float) -> NDArray[np.intp]:
    """Return the places, in order, of the fewest weights that reach what is wanted (arXiv:1904.09751)."""
    heaviest_first = np.sort(weights)[::-1]  # values alone are sorted several times as fast as their places
    size = int(np.searchsorted(np.cumsum(heaviest_first), wanted)) + 1
    least = heaviest_first[min(size, len(weights)) - 1]
    places = np.flatnonzero(weights >= least)
    surplus = len(places) - size
    if surplus > 0:  # of equal ones, the last are too many
        places = np.delete(places, np.flatnonzero(weights[places] == least)[-surplus:])
    return places

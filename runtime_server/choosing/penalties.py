"""What a request's parameters add to logits and take off them, given what has been said."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inference_protocol.sampling import Sampling


class Penalties:
    """Biases and penalties of one request, and the tokens that they count."""

    def __init__(self, sampling: Sampling, prompt: Sequence[int]) -> None:
        """Begin an answer.

        Args:
            sampling: The parameters.
            prompt: Its tokens count for the repetition penalty, and for no other.
        """
        self._sampling = sampling
        self._bias_ids = np.array([token for token, _ in sampling.logit_bias], np.intp)
        self._biases = np.array([bias for _, bias in sampling.logit_bias], np.float32)
        self._places: dict[int, int] = {}
        self._ids = np.zeros(64, np.intp)
        self._times_said = np.zeros(64, np.float32)
        if sampling.repetition_penalty != 1.0:
            for token in dict.fromkeys(prompt):
                self._place(token)

    @property
    def are_none(self) -> bool:
        """Whether logits stay as they are."""
        return not (self._sampling.has_penalties or len(self._biases))

    def count(self, token: int) -> None:
        """Take a token of the answer into account."""
        if self._sampling.has_penalties:
            place = self._place(token)
            self._times_said[place] += 1.0

    def apply(self, logits: NDArray[np.float32]) -> None:
        """Change logits in place: biases, then penalties."""
        if len(self._biases):
            logits[self._bias_ids] += self._biases
        seen = len(self._places)
        if not seen:
            return
        ids, said, sampling = self._ids[:seen], self._times_said[:seen], self._sampling
        found = logits[ids]
        if sampling.repetition_penalty != 1.0:
            penalty = np.float32(sampling.repetition_penalty)
            found = np.where(found > 0, found / penalty, found * penalty)
        found -= np.float32(sampling.frequency_penalty) * said
        found -= np.float32(sampling.presence_penalty) * (said > 0)
        logits[ids] = found

    def _place(self, token: int) -> int:
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._times_said = np.concatenate([self._times_said, np.zeros_like(self._times_said)])
        self._ids[place] = token
        return place

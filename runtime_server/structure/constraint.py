"""The form of one answer while it is written: which tokens may come next, and whether it is complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llguidance import LLExecutor, LLMatcher
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask_par
from numpy.typing import NDArray


class Constraint:
    """One answer's place in a grammar. For one thread at a time."""

    def __init__(self, matcher: LLMatcher, vocabulary: int) -> None:
        """Begin at the beginning.

        Args:
            matcher: Fresh.
            vocabulary: Tokens that it knows.
        """
        self._matcher = matcher
        self._vocabulary = vocabulary

    @property
    def is_complete(self) -> bool:
        """Whether the form is filled and nothing may follow."""
        return bool(self._matcher.is_stopped())

    def accept(self, token: int) -> None:
        """Go on by a token that was allowed."""
        self._matcher.consume_token(token)


class Masks:
    """Works out what several constraints allow, at once and on several threads. For one thread only."""

    def __init__(self) -> None:
        """Start no threads yet."""
        self._executor: LLExecutor | None = None
        self._bits: NDArray[np.int32] = allocate_token_bitmask(0, 1)

    def of(self, constraints: Sequence[Constraint], vocabulary: int) -> NDArray[np.bool_]:
        """Return which tokens each allows, `[constraints, vocabulary]`; valid until the next call.

        A constraint that cannot go on, because it grew past its bounds, allows nothing.

        Args:
            constraints: At least one.
            vocabulary: Of the model, which may have room for more tokens than are in use: those are never allowed.
        """
        if self._executor is None:
            self._executor = LLExecutor()
        known = min(constraints[0]._vocabulary, vocabulary)
        if self._bits.shape[0] < len(constraints) or self._bits.shape[1] * 32 < known:
            self._bits = allocate_token_bitmask(len(constraints), known)
        rows: list[tuple[Any, int]] = [(each._matcher, at) for at, each in enumerate(constraints)]
        fill_next_token_bitmask_par(self._executor, rows, self._bits)
        bits = np.unpackbits(self._bits[: len(rows)].view(np.uint8), axis=1, count=known, bitorder="little")
        allowed = bits.view(np.bool_)
        if known < vocabulary:
            allowed = np.pad(allowed, ((0, 0), (0, vocabulary - known)))
        for at, (matcher, _) in enumerate(rows):
            if matcher.is_error():
                allowed[at] = False
        return allowed

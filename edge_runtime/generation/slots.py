"""What every slot of the cache holds, so that a prompt that begins like one that was read need not be read again.

A slot keeps its tokens after its request has ended, until another request needs it or too much is kept. There are as
few slots as requests that run at once, so the longest shared prefix is found by comparing all of them, token by token:
exactly, and only within one salt. One engine serves one model, so its digest needs no comparing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# A prefix is cut to a multiple of this: shorter ones are read as fast as they are copied.
BLOCK = 16


class Cells(Protocol):
    """The memory behind the slots."""

    slots: int

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one slot over another."""
        ...

    def exchange(self, one: int, its_length: int, other: int, other_length: int) -> None:
        """Let two slots change places."""
        ...

    def release(self, slot: int) -> None:
        """Give a slot's memory back; what it held is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Reuse:
    """How what requests leave is used again.

    Attributes:
        kept_tokens: Most tokens to keep of requests that have ended; beyond it the oldest are given back.
        shares_answers: Whether prompts may take over what answers left: it must be what reading would have left.
    """

    kept_tokens: int = 0
    shares_answers: bool = True


@dataclass(slots=True)
class _Held:
    """Tokens, how many of them were read as a prompt, the salt that they may be shared within, and their last claim."""

    salt: str = ""
    tokens: array[int] = field(default_factory=lambda: array("q"))
    read: int = 0
    used: int = 0


class Slots:
    """Keeps count of tokens by slot. For the engine's thread only."""

    def __init__(self, cells: Cells, reuse: Reuse) -> None:
        """Begin with empty slots."""
        self._cells = cells
        self._reuse = reuse
        self._held = [_Held() for _ in range(cells.slots)]
        self._claims = 0

    def claim(self, first: int, salt: str, prompt: Sequence[int], most: int) -> tuple[int, int]:
        """Find a slot for a prompt.

        Args:
            first: The lowest slot that nobody owns; nobody owns those above it either.
            salt: What the prompt may be shared within.
            prompt: Its tokens.
            most: How many of them may come from what is kept.

        Returns:
            The slot, and how many tokens of the prompt stand in it.
        """
        self._claims += 1
        source, shared = self._longest_shared(salt, np.array(prompt[:most], np.int64))
        free = range(first, len(self._held))
        oldest = min(free, key=lambda slot: (len(self._held[slot].tokens) > 0, self._held[slot].used))
        if source in free and (source == oldest or len(self._held[source].tokens) <= 2 * shared):
            slot = source
            del self._held[slot].tokens[shared:]
        else:
            slot = oldest
            if shared:
                self._cells.copy(source, slot, shared)
            self._held[slot] = _Held(salt, self._held[source].tokens[:shared])
        self._held[slot].salt = salt
        self._held[slot].read = shared
        self._held[slot].used = self._claims
        return slot, shared

    def read(self, slot: int, tokens: Sequence[int]) -> None:
        """Take note that tokens of a prompt stand in a slot, after those that it held."""
        self._held[slot].tokens.extend(tokens)
        self._held[slot].read += len(tokens)

    def append(self, slot: int, token: int) -> None:
        """Take note that a token that was generated stands in a slot, after those that it held."""
        self._held[slot].tokens.append(token)

    def exchange(self, one: int, other: int) -> None:
        """Let two slots change places."""
        held = self._held
        if one != other:
            self._cells.exchange(one, len(held[one].tokens), other, len(held[other].tokens))
            held[one], held[other] = held[other], held[one]

    def trim(self, free: Iterable[int]) -> None:
        """Give back the oldest of the slots that nobody owns, until little enough is kept in them."""
        kept = sorted(free, key=lambda slot: self._held[slot].used)
        excess = sum(len(self._held[slot].tokens) for slot in kept) - self._reuse.kept_tokens
        for slot in kept:
            if excess <= 0:
                return
            if tokens := len(self._held[slot].tokens):
                excess -= tokens
                self._held[slot] = _Held()
                self._cells.release(slot)

    def tokens(self, slot: int) -> array[int]:
        """Return the tokens that a slot holds."""
        return self._held[slot].tokens

    def _longest_shared(self, salt: str, prompt: NDArray[np.int64]) -> tuple[int, int]:
        source, longest = 0, 0
        for slot, held in enumerate(self._held):
            tokens = held.tokens if self._reuse.shares_answers else held.tokens[: held.read]
            shared = _shared(np.array(tokens, np.int64), prompt) if held.salt == salt else 0
            if shared > longest:
                source, longest = slot, shared
        return source, longest - longest % BLOCK


def _shared(one: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """Return how many tokens two sequences have in common at their beginning."""
    size = min(len(one), len(other))
    differs = one[:size] != other[:size]
    return int(differs.argmax()) if differs.any() else size

"""A breaker: after so many faults in a row an address is left alone, then asked by exactly one request on trial.

    closed ──faults in a row──▶ open ──its time is over──▶ half-open ──the trial went well──▶ closed
                                 ▲                             │
                                 └──twice as long──────────────┘ it failed

A trial that nobody can judge, since its caller hung up, gives the right to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BreakerState(StrEnum):
    """Where a breaker stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """When a breaker opens, and for how long.

    Attributes:
        faults: In a row, until it opens.
        open_s: Seconds that it stays open at first; each trial that fails doubles them.
        longest_open_s: The most that doubling comes to.
    """

    faults: int = 5
    open_s: float = 1.0
    longest_open_s: float = 30.0


class Breaker:
    """One address's breaker. Who enters says afterwards how it went, with what `enter` returned."""

    __slots__ = ("_faults", "_generation", "_limits", "_on_trial", "_open_s", "_until")

    def __init__(self, limits: BreakerLimits) -> None:
        """Start closed."""
        self._limits = limits
        self._faults = 0
        self._until: float | None = None
        self._open_s = limits.open_s
        self._on_trial = False
        self._generation = 0  # of its time closed; what began in an earlier one says nothing of now

    def state(self, now: float) -> BreakerState:
        """Where it stands at `now`, in monotonic seconds."""
        if self._until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._until else BreakerState.HALF_OPEN

    def allows(self, now: float) -> bool:
        """Whether one more may enter."""
        return self._until is None or (now >= self._until and not self._on_trial)

    def opens_in_s(self, now: float) -> float:
        """Seconds until the next trial may begin."""
        return 0.0 if self._until is None else max(0.0, self._until - now)

    def enter(self) -> int:
        """Count one in that `allows` let in; a half-open breaker lets nobody else in until it is over."""
        if self._until is not None:
            assert not self._on_trial, "one trial at a time"
            self._on_trial = True
        return self._generation

    def succeeded(self, entered: int) -> None:
        """One went well. Of those that began before it opened, only the trial closes it."""
        if entered != self._generation:
            return
        self._faults = 0
        if self._until is not None:
            self._until = None
            self._on_trial = False
            self._open_s = self._limits.open_s

    def failed(self, entered: int, now: float) -> None:
        """One failed by the address's own fault."""
        if entered != self._generation:
            return
        self._faults += 1
        if self._on_trial:
            self._open_s = min(self._limits.longest_open_s, self._open_s * 2)
        elif self._faults < self._limits.faults:
            return
        self._on_trial = False
        self._until = now + self._open_s
        self._generation += 1

    def unjudged(self, entered: int) -> None:
        """One ended without saying anything of the address."""
        if entered == self._generation:
            self._on_trial = False

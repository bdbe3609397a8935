"""What callers are not told: why their credentials did not hold. It repeats no secret, and cannot be flooded."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

_logger = logging.getLogger(__name__)

_EVERY_S = 10.0
_MOST_SUBJECTS = 256


class RefusalLog:
    """One line for each kind of refusal every few seconds, with how many came in between."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start silent; `clock` gives monotonic seconds."""
        self._clock = clock
        self._silent_until = 0.0
        self._told: set[tuple[str, str]] = set()
        self._untold: Counter[tuple[str, str]] = Counter()

    def refused(self, subject: str, reason: str) -> None:
        """Tell of a refusal.

        Args:
            subject: Which of our own keys or issuers it was; nothing that a caller could choose.
            reason: Why.
        """
        now = self._clock()
        if now >= self._silent_until:
            for (whom, why), count in self._untold.items():
                _logger.warning("Refused %d more callers: %s %s", count, whom, why)
            self._untold.clear()
            self._told.clear()
            self._silent_until = now + _EVERY_S
        what = (subject, reason)
        if what not in self._told and len(self._told) < _MOST_SUBJECTS:
            self._told.add(what)
            _logger.warning("Refused a caller: %s %s", subject, reason)
        elif what in self._untold or len(self._untold) < _MOST_SUBJECTS:
            self._untold[what] += 1

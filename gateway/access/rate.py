"""One limit over time, by the generic cell rate algorithm (ITU-T I.371).

It keeps one moment: when all that was taken would be due, had it come evenly. That may run ahead of now by the window,
so as much as the limit can be taken at once, the wait for more is known exactly, and nothing has to be swept.
"""

from __future__ import annotations

import math


class Rate:
    """At most `limit` units a window; each unit takes its share of it.

    Attributes:
        limit: Units.
        window_s: Seconds.
    """

    __slots__ = ("_due_at", "limit", "window_s")

    def __init__(self, limit: int, window_s: float, now: float) -> None:
        """Start with nothing taken."""
        self.limit = limit
        self.window_s = window_s
        self._due_at = now

    def wait_s(self, units: int, now: float) -> float:
        """Return the seconds until so many units can be taken; 0 where they can be now."""
        too_early_s = max(self._due_at, now) + self._share_s(units) - now - self.window_s
        return too_early_s if too_early_s > 1e-9 * self.window_s else 0.0

    def take(self, units: int, now: float) -> None:
        """Take so many units, whether or not there are as many: what is taken beyond has to be waited for."""
        self._due_at = max(self._due_at, now) + self._share_s(units)

    def give_back(self, units: int) -> None:
        """Take so many units less than before."""
        self._due_at -= self._share_s(units)

    def taken_s(self, now: float) -> float:
        """Return the seconds until nothing is taken any more."""
        return max(0.0, self._due_at - now)

    def restore(self, taken_s: float, now: float) -> None:
        """Have so much taken as another one said before; no more than there is."""
        self._due_at = now + min(max(0.0, taken_s), self.window_s)

    def left(self, now: float) -> int:
        """Return the units that can be taken now."""
        return max(0, math.floor((self.window_s - self.taken_s(now)) * self.limit / self.window_s + 1e-6))

    def _share_s(self, units: int) -> float:
        return units * self.window_s / self.limit

"""Bounds what faults may add to a target's load, as Finagle's retry budget does.

Each request that a target may answer pays in a share of one further attempt there; each attempt that is not a request's
first takes out one. Beside that there is a small steady income, so that a gateway with few requests can retry at all.
While all goes well the account is full; when everything fails, a target is sent its requests and that share again,
and not a multiple of them.
"""

from __future__ import annotations

# Seconds of income that the account holds at most.
_HOLDS_S = 10.0


class RetryBudget:
    """One target's account."""

    __slots__ = ("_balance", "_income_per_s", "_most", "_share", "_updated_at")

    def __init__(self, *, share: float, income_per_s: float) -> None:
        """Start full.

        Args:
            share: Further attempts for each request, such as 0.2.
            income_per_s: Further attempts each second, whatever the requests.
        """
        self._share = share
        self._income_per_s = income_per_s
        self._most = max(1.0, income_per_s * _HOLDS_S)
        self._balance = self._most
        self._updated_at: float | None = None

    def pay_in(self) -> None:
        """Count a request that the target may answer."""
        self._balance = min(self._most, self._balance + self._share)

    def take(self, now: float) -> bool:
        """Take out one further attempt at `now`, in monotonic seconds; say whether there was one."""
        if self._updated_at is not None:
            self._balance = min(self._most, self._balance + self._income_per_s * (now - self._updated_at))
        self._updated_at = now
        if self._balance < 1.0:
            return False
        self._balance -= 1.0
        return True

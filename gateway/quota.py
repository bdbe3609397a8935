"""What one key may take: requests at once, and requests a minute. Its own limit is a 429; ours are a 503.

The rate is held by the generic cell rate algorithm (ITU-T I.371): one moment a key, before which its next request would
be due if all came evenly. A burst may run ahead of that by a minute's worth, and the wait is known exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from gateway.access_settings import ApiKey
from inference_protocol.errors import QuotaExceeded

_WINDOW_S = 60.0
# How soon a place of the key's own is likely to be free: nobody knows how long its requests take.
_PLACE_RETRY_S = 1.0


class Quotas:
    """The keys that have limits."""

    def __init__(self, keys: Iterable[ApiKey], *, clock: Callable[[], float]) -> None:
        """Start with nothing used; `clock` gives monotonic seconds."""
        self._limited = {
            key.id: _Quota(key, clock) for key in keys if key.concurrent_requests or key.requests_per_minute
        }

    def place(self, key_id: str) -> AbstractContextManager[None]:
        """Hold one of a key's places for the length of a request.

        Raises:
            QuotaExceeded: On entering: the key has used up what it may.
        """
        quota = self._limited.get(key_id)
        return nullcontext() if quota is None else quota.place()


class _Quota:
    """One key's account."""

    def __init__(self, key: ApiKey, clock: Callable[[], float]) -> None:
        self._most_at_once = key.concurrent_requests
        self._per_minute = key.requests_per_minute
        self._clock = clock
        self._inside = 0
        self._due_at = clock()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place."""
        if self._most_at_once is not None and self._inside >= self._most_at_once:
            raise QuotaExceeded(
                f"This key may have {self._most_at_once} requests at once; wait for one to end.",
                retry_after_s=_PLACE_RETRY_S,
                details={"reason": "rejected-concurrency", "limit": self._most_at_once},
            )
        self._count()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def _count(self) -> None:
        if self._per_minute is None:
            return
        now = self._clock()
        due_at = max(self._due_at, now) + _WINDOW_S / self._per_minute
        too_early_s = due_at - now - _WINDOW_S
        if too_early_s > 1e-9:
            raise QuotaExceeded(
                f"This key may make {self._per_minute} requests a minute.",
                retry_after_s=too_early_s,
                details={"reason": "rejected-rate", "limit": self._per_minute},
            )
        self._due_at = due_at

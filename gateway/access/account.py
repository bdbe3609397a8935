"""What one holder of an allowance has taken: a key, or all callers of a tenant together. Both are held the same way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.access.rate import Rate
from gateway.allowance import Allowance
from inference_protocol.errors import InvalidField, QuotaExceeded

_MINUTE_S, _DAY_S = 60.0, 86_400.0
# How soon a place of one's own is likely to be free: nobody knows how long requests take.
_PLACE_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Need:
    """Tokens that a request may take, at worst.

    Attributes:
        most: Of prompt and answers; `None` where nobody knows a bound.
        surely: Of them, those that it takes whatever comes, or that it asks for; what never fits is refused for good.
    """

    most: int | None
    surely: int


class Account:
    """Counts for one holder."""

    def __init__(self, holder: str, allowance: Allowance, now: float) -> None:
        """Start with nothing taken.

        Args:
            holder: In words that the caller may read: `key` or `tenant`.
            allowance: The limits.
            now: Monotonic seconds.
        """
        self._holder = holder
        self.allowance = allowance
        self._inside = 0
        self._requests = _rate(allowance.requests_per_minute, _MINUTE_S, now)
        self._by_window = {
            "minute": _rate(allowance.tokens_per_minute, _MINUTE_S, now),
            "day": _rate(allowance.tokens_per_day, _DAY_S, now),
        }

    @property
    def requests(self) -> Rate | None:
        """What is left of the requests a minute."""
        return self._requests

    def tokens(self) -> Iterator[tuple[str, Rate]]:
        """Yield the limits on tokens with the names of their windows."""
        return ((window, rate) for window, rate in self._by_window.items() if rate is not None)

    def check_room(self, now: float) -> None:
        """Return if one more request may come in.

        Raises:
            QuotaExceeded: It may not.
        """
        most = self.allowance.concurrent_requests
        if most is not None and self._inside >= most:
            raise QuotaExceeded(
                f"This {self._holder} may have {most} requests at once; wait for one to end.",
                retry_after_s=_PLACE_RETRY_S,
                details={"reason": "rejected-concurrency", "limit": most},
            )
        if self._requests is not None and (wait_s := self._requests.wait_s(1, now)):
            raise QuotaExceeded(
                f"This {self._holder} may make {self._requests.limit} requests a minute.",
                retry_after_s=wait_s,
                details={"reason": "rejected-rate", "limit": self._requests.limit},
            )

    def enter(self, now: float) -> None:
        """Count a request in."""
        self._inside += 1
        if self._requests is not None:
            self._requests.take(1, now)

    def leave(self) -> None:
        """Count a request out."""
        self._inside -= 1

    def check_tokens(self, need: Need, now: float) -> None:
        """Return if so many tokens may be taken.

        Raises:
            QuotaExceeded: Not now.
            InvalidField: Never.
        """
        for window, rate in self.tokens():
            if need.surely > rate.limit:
                raise InvalidField(
                    f"This request takes up to {need.surely} tokens, and this {self._holder} may take {rate.limit} a "
                    f"{window}: lower `max_tokens`, or shorten the prompt.",
                    param="max_tokens",
                    details={"limit": rate.limit, "tokens": need.surely},
                )
            if wait_s := rate.wait_s(_within(rate, need), now):
                raise QuotaExceeded(
                    f"This {self._holder} may take {rate.limit} tokens a {window}, prompts and answers together, and "
                    f"{rate.left(now)} are left. This request may take {_within(rate, need)}: a lower `max_tokens` "
                    "makes room.",
                    retry_after_s=wait_s,
                    details={"reason": "rejected-tokens", "limit": rate.limit, "window": window},
                )

    def reserve(self, need: Need, now: float) -> None:
        """Take what a request may take at worst."""
        for _, rate in self.tokens():
            rate.take(_within(rate, need), now)

    def settle(self, need: Need, used: int) -> None:
        """Take instead what it has taken."""
        for _, rate in self.tokens():
            rate.give_back(_within(rate, need) - used)

    def is_at_rest(self, now: float) -> bool:
        """Whether nothing would be lost with it."""
        rates = [rate for _, rate in self.tokens()] + ([self._requests] if self._requests is not None else [])
        return not self._inside and not any(rate.taken_s(now) for rate in rates)

    def taken(self, now: float) -> dict[str, float]:
        """What must outlast the process: seconds until nothing of a limit is taken any more, by its window."""
        return {window: taken_s for window, rate in self.tokens() if (taken_s := rate.taken_s(now))}

    def restore(self, taken: Mapping[str, float], now: float) -> None:
        """Take what was taken before a restart."""
        for window, rate in self.tokens():
            rate.restore(taken.get(window, 0.0), now)


def _rate(limit: int | None, window_s: float, now: float) -> Rate | None:
    return None if limit is None else Rate(limit, window_s, now)


def _within(rate: Rate, need: Need) -> int:
    """What is reserved: what nobody knows a bound of, and what is larger than the limit, takes all of it."""
    return rate.limit if need.most is None else min(need.most, rate.limit)

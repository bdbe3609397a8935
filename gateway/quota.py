"""What callers may take: requests at once, requests a minute, tokens a minute and a day. Their own limit is a 429.

A key and its tenant each have an account, and a request must fit in both. Tokens are reserved as many as the request
may take at worst, before anything is sent, and settled to what it took when it is over: requests that come at the same
time cannot take together what none could have taken alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from gateway.access.account import Account, Need
from gateway.access.rate import Rate
from gateway.allowance import Allowance
from gateway.principal import Principal
from inference_protocol import headers

_OF_REQUESTS = (
    headers.RATELIMIT_LIMIT_REQUESTS,
    headers.RATELIMIT_REMAINING_REQUESTS,
    headers.RATELIMIT_RESET_REQUESTS,
)
_OF_TOKENS = (headers.RATELIMIT_LIMIT_TOKENS, headers.RATELIMIT_REMAINING_TOKENS, headers.RATELIMIT_RESET_TOKENS)
# Accounts beyond that are looked through for those that hold nothing.
_MANY = 10_000

Kept = Mapping[str, Mapping[str, float]]
"""For how many seconds what accounts have taken is still taken, by account and window: for a restart."""


class Grant:
    """What one request has of its caller's allowances."""

    __slots__ = ("_accounts", "_clock", "_need")

    def __init__(self, accounts: tuple[Account, ...], clock: Callable[[], float]) -> None:
        """Reserve nothing yet."""
        self._accounts = accounts
        self._clock = clock
        self._need: Need | None = None

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the caller's places for the length of a request.

        Raises:
            QuotaExceeded: On entering: the key, or its tenant, has used up what it may.
        """
        now = self._clock()
        for account in self._accounts:
            account.check_room(now)
        for account in self._accounts:
            account.enter(now)
        try:
            yield
        finally:
            for account in self._accounts:
                account.leave()

    @property
    def counts_tokens(self) -> bool:
        """Whether a limit on tokens holds for it."""
        return any(True for account in self._accounts for _ in account.tokens())

    def would_refuse(self, need: Need) -> bool:
        """Whether so many tokens cannot be had now, so that counting them exactly is worth its while."""
        now = self._clock()
        rates = [rate for account in self._accounts for _, rate in account.tokens()]
        most = need.most
        return most is not None and any(most > rate.limit or rate.wait_s(most, now) > 0 for rate in rates)

    def reserve(self, need: Need) -> None:
        """Take what the request may take at worst, of every account or of none.

        Raises:
            QuotaExceeded: It is not there now.
            InvalidField: It never is.
        """
        if not self._accounts or self._need is not None:
            return
        now = self._clock()
        for account in self._accounts:
            account.check_tokens(need, now)
        for account in self._accounts:
            account.reserve(need, now)
        self._need = need

    def settle(self, used_by: Callable[[], int]) -> None:
        """Take what the request has taken, now that it is over; `used_by` tells it, where it had reserved any."""
        need, self._need = self._need, None
        if need is not None:
            used = used_by()
            for account in self._accounts:
                account.settle(need, used)

    def headers(self) -> dict[str, str]:
        """What is left, as OpenAI's API tells it; of several limits, the one that is nearest."""
        if not self._accounts:
            return {}
        now = self._clock()
        requests = [account.requests for account in self._accounts if account.requests is not None]
        tokens = [rate for account in self._accounts for _, rate in account.tokens()]
        return {
            **_told(requests, now, _OF_REQUESTS),
            **_told(tokens, now, _OF_TOKENS),
        }


NO_GRANT = Grant((), float)
"""Of a caller who may take whatever there is."""


class Quotas:
    """The accounts of those who have limits."""

    def __init__(self, *, clock: Callable[[], float], kept: Kept | None = None) -> None:
        """Start with nothing taken but what was kept; `clock` gives monotonic seconds."""
        self._clock = clock
        self._accounts: dict[str, Account] = {}
        now = clock()
        # Moments of the clock, until its holder comes again.
        self._kept = {
            name: {window: now + taken_s for window, taken_s in taken.items()} for name, taken in (kept or {}).items()
        }

    def grant(self, principal: Principal) -> Grant:
        """Return what a caller has, for one request."""
        named = (
            (f"key {principal.id}", "key", principal.allowance),
            (f"tenant {principal.tenant.id}", "tenant", principal.tenant_allowance),
        )
        accounts = tuple(self._account(name, holder, own) for name, holder, own in named if own is not None)
        return Grant(accounts, self._clock) if accounts else NO_GRANT

    def kept(self) -> Kept:
        """What must outlast the process."""
        now = self._clock()
        found = {name: self._taken_before(name, now) for name in self._kept}
        found |= {name: account.taken(now) for name, account in self._accounts.items()}
        return {name: taken for name, taken in found.items() if taken}

    def _account(self, name: str, holder: str, allowance: Allowance) -> Account:
        account = self._accounts.get(name)
        if account is None or account.allowance is not allowance:
            account = self._accounts[name] = self._opened(name, holder, allowance, account)
        return account

    def _opened(self, name: str, holder: str, allowance: Allowance, before: Account | None) -> Account:
        """Open an account, with what it had taken under another allowance or before a restart."""
        now = self._clock()
        if before is not None and before.allowance == allowance:
            before.allowance = allowance
            return before
        if len(self._accounts) >= _MANY:
            self._accounts = {name: each for name, each in self._accounts.items() if not each.is_at_rest(now)}
        account = Account(holder, allowance, now)
        account.restore(self._taken_before(name, now) if before is None else before.taken(now), now)
        self._kept.pop(name, None)
        return account

    def _taken_before(self, name: str, now: float) -> dict[str, float]:
        """What was kept of an account that nobody has asked for yet."""
        return {window: until - now for window, until in self._kept.get(name, {}).items() if until > now}


def _told(rates: list[Rate], now: float, names: tuple[str, str, str]) -> dict[str, str]:
    if not rates:
        return {}
    nearest = min(rates, key=lambda rate: rate.left(now))
    told = (str(nearest.limit), str(nearest.left(now)), f"{nearest.taken_s(now):.3f}s")
    return dict(zip(names, told, strict=True))

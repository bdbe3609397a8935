"""The sums over requests, and what they come to for each million tokens and each good answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from routing_policies.policy.model import Kind, Power, Price, Target

_MILLION = 1_000_000


def money(price: Price, input_tokens: int, output_tokens: int) -> float:
    """What tokens cost, in the price's currency."""
    return (input_tokens * price.input + output_tokens * price.output) / price.per


def joules(power: Power, duration_s: float) -> float:
    """What an attempt took: an estimate, since requests that run at once share a machine."""
    return power.watts * duration_s


@dataclass(frozen=True, slots=True)
class Spent:
    """What one attempt took.

    Attributes:
        duration_s: From its start to its end.
        output_tokens: Of an attempt that broke off, the pieces that had come.
    """

    target: str
    bytes_out: int
    duration_s: float
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """A request that is over.

    Attributes:
        words: What it can be told apart by: tenant, model, target and class.
        is_good: Whether it was answered, and inside its budgets.
        body_bytes: Length of its body; 0 where it was refused before that was measured.
        attempts: In order.
        answered: The attempt that the caller got, by its place among them.
        promises: What the policy that decided it declares of each target; empty where that is not known any more.
    """

    words: Mapping[str, str]
    is_good: bool = False
    body_bytes: int = 0
    attempts: tuple[Spent, ...] = ()
    answered: int | None = None
    promises: Mapping[str, Target] = field(default_factory=dict)


@dataclass(slots=True)
class Account:
    """Sums over requests.

    Attributes:
        good: Answered inside their budgets.
        money: By currency, of all attempts: what a fallback or a hedge took is paid for, too.
        unpriced: Attempts that took tokens where no price is known.
        joules: Declared watts times the time that attempts took, so an estimate: requests at once share a machine.
        unmetered: Attempts where no watts are known.
        bytes_kept: Bodies of requests that never left this device.
        bytes_out: What was sent to targets elsewhere.
        all_cloud: The money, had each answer come from the cloud; by currency.
        bytes_all_cloud: What would have been sent there.
    """

    requests: int = 0
    good: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    money: dict[str, float] = field(default_factory=dict)
    unpriced: int = 0
    joules: float = 0.0
    unmetered: int = 0
    bytes_kept: int = 0
    bytes_out: int = 0
    all_cloud: dict[str, float] = field(default_factory=dict)
    bytes_all_cloud: int = 0

    @property
    def tokens(self) -> int:
        """Read and written."""
        return self.input_tokens + self.output_tokens

    def add(self, ended: Ended, cloud: str | None = None) -> None:
        """Add a request.

        Args:
            ended: The request.
            cloud: The target that `all_cloud` reckons with; the first of that kind with a price where not given.
        """
        self.requests += 1
        self.good += ended.is_good
        left = False
        for spent in ended.attempts:
            promise = ended.promises.get(spent.target)
            self._spend(spent, promise)
            if promise is None or not promise.on_device:
                self.bytes_out += spent.bytes_out
                left = left or spent.bytes_out > 0
        if not left:
            self.bytes_kept += ended.body_bytes
        if ended.answered is not None:
            self.bytes_all_cloud += ended.body_bytes
            answer, reference = ended.attempts[ended.answered], _cloud(ended.promises, cloud)
            if reference is not None:
                _pay(self.all_cloud, answer, reference)

    def money_per_million_tokens(self) -> dict[str, float]:
        """By currency; empty where no tokens were counted."""
        return _shares(self.money, self.tokens / _MILLION)

    def money_per_good(self) -> dict[str, float]:
        """By currency, for each request that was answered inside its budgets."""
        return _shares(self.money, self.good)

    def joules_per_million_tokens(self) -> float | None:
        """`None` where no tokens were counted."""
        return self.joules / self.tokens * _MILLION if self.tokens else None

    def joules_per_good(self) -> float | None:
        """`None` where no request was answered inside its budgets."""
        return self.joules / self.good if self.good else None

    def _spend(self, spent: Spent, promise: Target | None) -> None:
        self.input_tokens += spent.input_tokens
        self.cached_tokens += spent.cached_tokens
        self.output_tokens += spent.output_tokens
        if promise is not None and promise.price is not None:
            _pay(self.money, spent, promise)
        elif spent.input_tokens or spent.output_tokens:
            self.unpriced += 1
        if promise is not None and promise.power is not None:
            self.joules += joules(promise.power, spent.duration_s)
        else:
            self.unmetered += 1


def _pay(purse: dict[str, float], spent: Spent, promise: Target) -> None:
    price = promise.price
    assert price is not None, "asked only where there is one"
    purse[price.currency] = purse.get(price.currency, 0.0) + money(price, spent.input_tokens, spent.output_tokens)


def _cloud(promises: Mapping[str, Target], name: str | None) -> Target | None:
    if name is not None:
        named = promises.get(name)
        return named if named is not None and named.price is not None else None
    return next((each for each in promises.values() if each.kind is Kind.CLOUD and each.price is not None), None)


def _shares(money: Mapping[str, float], of: float) -> dict[str, float]:
    return {currency: amount / of for currency, amount in money.items()} if of else {}

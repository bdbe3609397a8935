"""What requests come to: every attempt is paid for, and nothing is made up where nothing is declared."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.accounts.account import Account, Ended, Spent
from routing_policies.policy.model import Target


def declared(fields: dict[str, Any]) -> Target:
    return Target.model_validate_json(orjson.dumps(fields))


EDGE = declared({"kind": "edge", "clearance": "restricted", "price": {"input": 0, "output": 0}, "power": {"watts": 8}})
CLOUD = declared({"kind": "cloud", "clearance": "internal", "price": {"input": 0.1, "output": 0.4}})
PROMISES = {"edge": EDGE, "cloud": CLOUD}
HERE = Spent("edge", 100, duration_s=2.0, input_tokens=700, cached_tokens=200, output_tokens=300)
THERE = Spent("cloud", 110, duration_s=1.0, input_tokens=1000, output_tokens=1000)
FAILED = Spent("edge", 100, duration_s=0.5)


def ended(*attempts: Spent, good: bool = True, answered: int | None = -1) -> Ended:
    place = len(attempts) + answered if answered is not None and answered < 0 else answered
    return Ended({}, is_good=good, body_bytes=90, attempts=attempts, answered=place, promises=PROMISES)


def account_of(*requests: Ended, cloud: str | None = None) -> Account:
    account = Account()
    for each in requests:
        account.add(each, cloud)
    return account


def test_an_answer_from_here_costs_watts_and_no_money_and_keeps_its_bytes() -> None:
    account = account_of(ended(HERE))
    assert (account.money, account.joules) == ({"USD": 0.0}, 16.0)
    assert (account.bytes_kept, account.bytes_out) == (90, 0)
    assert account.all_cloud == {"USD": pytest.approx((700 * 0.1 + 300 * 0.4) / 1e6)}
    assert account.bytes_all_cloud == 90


def test_every_attempt_is_paid_for_and_one_that_left_keeps_nothing_here() -> None:
    account = account_of(ended(FAILED, THERE))
    assert account.money["USD"] == pytest.approx((1000 * 0.1 + 1000 * 0.4) / 1e6)
    assert account.joules == 4.0
    assert (account.bytes_kept, account.bytes_out) == (0, 110)


def test_shares_are_of_tokens_and_of_answers_inside_their_budget() -> None:
    account = account_of(ended(HERE), ended(THERE, good=False))
    assert account.tokens == 3000
    assert account.joules_per_million_tokens() == pytest.approx(16 / 3000 * 1e6)
    assert account.joules_per_good() == 16.0
    assert account.money_per_good() == {"USD": pytest.approx(account.money["USD"])}
    assert account.money_per_million_tokens() == {"USD": pytest.approx(account.money["USD"] / 3000 * 1e6)}


def test_nothing_is_divided_by_nothing() -> None:
    account = account_of(ended(FAILED, good=False, answered=None))
    assert account.joules_per_million_tokens() is None
    assert account.joules_per_good() is None
    assert account.money_per_good() == {}
    assert account.all_cloud == {}


def test_what_is_not_declared_is_counted_and_not_guessed() -> None:
    unknown = Ended({}, is_good=True, body_bytes=90, attempts=(THERE,), answered=0)
    account = account_of(unknown)
    assert (account.unpriced, account.unmetered) == (1, 1)
    assert (account.money, account.joules, account.all_cloud) == ({}, 0.0, {})
    assert account.bytes_out == 110, "a target that nobody knows any more is not this device"


def test_all_cloud_can_be_reckoned_with_another_target() -> None:
    assert account_of(ended(HERE), cloud="edge").all_cloud == {"USD": 0.0}
    assert account_of(ended(HERE), cloud="elsewhere").all_cloud == {}


def test_currencies_are_kept_apart() -> None:
    euros = declared({"kind": "cloud", "clearance": "internal", "price": {"input": 1, "output": 1, "currency": "EUR"}})
    account = account_of(ended(THERE), Ended({}, attempts=(THERE,), promises={"cloud": euros}))
    assert set(account.money) == {"USD", "EUR"}

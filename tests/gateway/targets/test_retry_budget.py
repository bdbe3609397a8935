"""Faults add a bounded share to a target's load, and not a multiple."""

from __future__ import annotations

from gateway.targets.retry_budget import RetryBudget


def taken(budget: RetryBudget, requests: int, *, tries: int, per_s: float) -> int:
    """How many further attempts a target gets while each request would like so many."""
    found = 0
    for number in range(requests):
        budget.pay_in()
        found += sum(budget.take(number / per_s) for _ in range(tries))
    return found


def test_when_everything_fails_a_target_is_sent_a_share_more_and_not_a_multiple() -> None:
    # 10,000 requests in 10 s, each wants two more attempts: a fifth, what was saved up, and the steady income.
    assert 2000 <= taken(RetryBudget(share=0.2, income_per_s=10.0), 10_000, tries=2, per_s=1000.0) <= 2000 + 100 + 100


def test_a_gateway_with_few_requests_can_retry_all_of_them() -> None:
    assert taken(RetryBudget(share=0.2, income_per_s=10.0), 60, tries=1, per_s=1.0) == 60


def test_without_an_income_only_the_share_is_left() -> None:
    budget = RetryBudget(share=0.1, income_per_s=0.0)
    assert 90 <= taken(budget, 1000, tries=3, per_s=100.0) <= 1 + 100

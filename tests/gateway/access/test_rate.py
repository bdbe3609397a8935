"""One limit over time: what was taken comes back evenly, and never more than the limit is there at once."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gateway.access.rate import Rate

STEPS = st.lists(st.tuples(st.integers(1, 40), st.floats(0, 30)), max_size=60)


@given(STEPS, st.integers(1, 50))
def test_no_window_holds_more_than_twice_the_limit_and_no_moment_more_than_it(
    steps: list[tuple[int, float]], limit: int
) -> None:
    now, window = 1000.0, 60.0
    rate = Rate(limit, window, now)
    taken: list[tuple[float, int]] = []
    for units, later in steps:
        now += later
        if rate.wait_s(units, now) == 0:
            rate.take(units, now)
            taken.append((now, units))
        assert 0 <= rate.left(now) <= limit
        since = [(at, n) for at, n in taken if at > now - window]
        # A full bucket at the window's beginning, and what has flowed in since.
        assert sum(n for _, n in since) <= 2 * limit + 1e-6


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_what_is_waited_for_is_there_and_not_before(limit: int, units: int) -> None:
    rate = Rate(limit, 60.0, 0.0)
    rate.take(limit, 0.0)
    wait_s = rate.wait_s(min(units, limit), 0.0)
    assert math.isclose(wait_s, 60.0 * min(units, limit) / limit)
    assert rate.wait_s(min(units, limit), wait_s + 1e-6) == 0
    assert rate.wait_s(min(units, limit), wait_s * 0.99) > 0


def test_what_is_given_back_is_there_again_and_a_debt_is_waited_for() -> None:
    rate = Rate(100, 60.0, 0.0)
    rate.take(100, 0.0)
    rate.give_back(70)
    assert rate.left(0.0) == 70
    rate.take(150, 0.0)
    assert rate.left(0.0) == 0
    assert rate.wait_s(10, 0.0) == 54.0  # 30 + 150 + 10 of 100 are due after 114 s, of which 60 may be ahead


def test_what_a_restart_restores_is_never_more_than_all() -> None:
    rate = Rate(100, 60.0, 0.0)
    rate.restore(1e9, 0.0)
    assert (rate.left(0.0), rate.left(60.0)) == (0, 100)
    rate.restore(-5.0, 0.0)
    assert rate.left(0.0) == 100

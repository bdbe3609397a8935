"""A breaker lets exactly one on trial, whoever enters, fails, succeeds and gives up in whatever order."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from gateway.targets.breaker import Breaker, BreakerLimits, BreakerState

LIMITS = BreakerLimits(faults=3, open_s=1.0, longest_open_s=4.0)


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker(LIMITS)
    for _ in range(LIMITS.faults):
        breaker.failed(breaker.enter(), at)
    return breaker


def test_it_opens_after_faults_in_a_row_and_not_before() -> None:
    breaker = Breaker(LIMITS)
    for _ in range(2):
        breaker.failed(breaker.enter(), 0.0)
    breaker.succeeded(breaker.enter())
    for _ in range(2):
        breaker.failed(breaker.enter(), 0.0)
    assert breaker.state(0.0) is BreakerState.CLOSED
    breaker.failed(breaker.enter(), 0.0)
    assert (breaker.state(0.5), breaker.allows(0.5)) == (BreakerState.OPEN, False)
    assert breaker.opens_in_s(0.25) == 0.75


def test_each_trial_that_fails_doubles_its_time_up_to_a_bound_and_one_that_succeeds_closes_it() -> None:
    breaker, now, found = opened(), 0.0, []
    for _ in range(4):
        wait_s = breaker.opens_in_s(now)
        found.append(wait_s)
        now += wait_s
        breaker.failed(breaker.enter(), now)
    assert found == [1.0, 2.0, 4.0, 4.0]
    now += breaker.opens_in_s(now)
    breaker.succeeded(breaker.enter())
    assert breaker.state(now) is BreakerState.CLOSED


def test_what_began_before_it_opened_neither_closes_it_nor_counts_again() -> None:
    breaker = Breaker(LIMITS)
    entered = [breaker.enter() for _ in range(6)]
    for each in entered[:4]:
        breaker.failed(each, 0.0)
    breaker.succeeded(entered[4])
    assert breaker.state(0.5) is BreakerState.OPEN
    assert breaker.opens_in_s(0.0) == 1.0
    trial = breaker.enter()
    breaker.unjudged(entered[5])
    assert not breaker.allows(2.0), "the trial is still running"
    breaker.succeeded(trial)
    assert breaker.allows(2.0)


def test_a_trial_that_nobody_could_judge_gives_the_right_to_the_next() -> None:
    breaker = opened()
    breaker.unjudged(breaker.enter())
    assert (breaker.state(1.0), breaker.allows(1.0)) == (BreakerState.HALF_OPEN, True)


class AnyOrder(RuleBasedStateMachine):
    """Attempts that overlap in any way, over time that passes in any steps."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(LIMITS)
        self.now = 0.0
        self.running: list[tuple[int, bool]] = []  # what `enter` returned, and whether it was half-open then

    @rule(seconds=st.floats(0.0, 3.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.breaker.allows(self.now))
    @rule()
    def one_enters(self) -> None:
        half_open = self.breaker.state(self.now) is BreakerState.HALF_OPEN
        self.running.append((self.breaker.enter(), half_open))

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 99), how=st.sampled_from(["succeeded", "failed", "unjudged"]))
    def one_ends(self, which: int, how: str) -> None:
        entered, _ = self.running.pop(which % len(self.running))
        if how == "failed":
            self.breaker.failed(entered, self.now)
        else:
            getattr(self.breaker, how)(entered)

    @invariant()
    def no_more_than_one_is_on_trial(self) -> None:
        trials = Counter(entered for entered, half_open in self.running if half_open)
        assert all(count == 1 for count in trials.values())

    @invariant()
    def an_open_one_lets_nobody_in(self) -> None:
        if self.breaker.state(self.now) is BreakerState.OPEN:
            assert not self.breaker.allows(self.now)


def test_at_most_one_is_on_trial_in_any_order_of_events() -> None:
    run_state_machine_as_test(AnyOrder)


@given(st.integers(2, 50))
def test_of_many_that_come_at_once_to_a_half_open_breaker_one_gets_in(count: int) -> None:
    breaker = opened()
    assert len([breaker.enter() for _ in range(count) if breaker.allows(1.5)]) == 1

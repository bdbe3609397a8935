"""What is tried, when, and what it costs: the real dispatcher in virtual time, with faults at every target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.exchange import Cause
from gateway.reach_settings import AttemptSettings
from gateway.targets.breaker import BreakerLimits
from gateway.targets.target import Target
from inference_protocol.errors import ContextLengthExceeded, DeadlineExceeded, NoTargetAvailable, UpstreamBusy
from routing_policies.snapshot import Health
from tests.support.driven_dispatch import WALL_S, Drive, takes
from tests.support.scripted_transport import (
    FAULTS,
    after,
    answers,
    ends_before_content,
    refuses_connection,
    says_500,
    says_busy,
    says_too_long,
)
from tests.support.virtual_time import in_virtual_time

Clock = Callable[[], float]
NEVER = after(1e6, answers)


def settled(drive: Drive) -> bool:
    """Whether every place is free again."""
    return all(not target.in_flight and not target.pool.waiting for target in drive.targets)


def spend_all(target: Target, clock: Clock) -> None:
    """Leave nothing in a target's retry budget."""
    while target.retries.take(clock()):
        pass


def test_a_slow_cloud_is_handed_over_to_the_edge_while_it_can_still_make_the_deadline() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [NEVER], "edge": [after(0.4, answers)]})
        found = await drive.send(stream=True, ttft_s=2.0, predictions={"edge": takes(500)})
        assert found.error is None
        assert found.asked == ["cloud", "edge"]
        assert drive.sent_at[1] - drive.sent_at[0] == pytest.approx(1.5)
        assert found.took_s == pytest.approx(1.9)
        assert found.outcomes == [("cloud", "first", "superseded"), ("edge", "hand-over", None)]
        answered = found.exchange.answered
        assert answered is not None
        assert answered.cause is Cause.HAND_OVER
        assert settled(drive)

    in_virtual_time(work)


def test_a_cloud_that_commits_after_all_wins_over_the_hand_over() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [after(1.6, answers)], "edge": [NEVER]})
        found = await drive.send(total_s=2.0, predictions={"edge": takes(100, 500)})
        assert found.outcomes == [("cloud", "first", None), ("edge", "hand-over", "superseded")]
        assert settled(drive)

    in_virtual_time(work)


@pytest.mark.parametrize(
    ("first", "stream", "edge_ms", "why"),
    [
        ("cloud", True, 500, "the cloud is in time"),
        ("edge", True, 500, "it is on this device already"),
        ("cloud", False, 500, "a budget for first content says nothing of a whole answer"),
        ("cloud", True, 3000, "the edge could not make it any more"),
    ],
)
def test_nothing_is_handed_over_without_a_need(first: str, stream: bool, edge_ms: float, why: str) -> None:
    async def work(clock: Clock) -> None:
        order = [first, "cloud" if first == "edge" else "edge"]
        drive = Drive(clock, {name: [after(1.0, answers)] for name in order})
        found = await drive.send(stream=stream, ttft_s=2.0, predictions={"edge": takes(edge_ms)})
        assert (found.error, found.asked) == (None, [first]), why

    in_virtual_time(work)


def test_a_cloud_that_fails_before_its_moment_is_replaced_at_once() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [after(0.1, says_500)], "edge": [answers]})
        found = await drive.send(stream=True, ttft_s=2.0, predictions={"edge": takes(500)})
        assert found.outcomes == [("cloud", "first", "upstream_error"), ("edge", "fallback", None)]
        assert found.took_s == pytest.approx(0.1)

    in_virtual_time(work)


def test_two_that_run_beside_each_other_and_both_fail_leave_the_third() -> None:
    async def work(clock: Clock) -> None:
        scripts = {"cloud": [after(1.8, says_500)], "edge": [after(0.1, ends_before_content)], "dc": [answers]}
        drive = Drive(clock, scripts)
        found = await drive.send(stream=True, ttft_s=2.0, predictions={"edge": takes(500)})
        assert [(target, cause) for target, cause, _ in found.outcomes] == [
            ("cloud", "first"),
            ("edge", "hand-over"),
            ("dc", "fallback"),
        ]
        assert found.error is None
        assert settled(drive)

    in_virtual_time(work)


@pytest.mark.parametrize(("hedge_after", "at"), [(0.3, 0.3), ("p95", 0.2)])
def test_a_hedge_asks_another_target_after_its_delay_and_the_loser_is_cancelled(hedge_after: Any, at: float) -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [NEVER], "dc": [answers]}, AttemptSettings(hedge_after=hedge_after))
        found = await drive.send(stream=True, predictions={"cloud": takes(200)})
        assert found.outcomes == [("cloud", "first", "superseded"), ("dc", "hedge", None)]
        assert found.took_s == pytest.approx(at)
        assert settled(drive)

    in_virtual_time(work)


def test_a_hedge_draws_on_the_retry_budget_and_is_never_made_for_tools() -> None:
    async def work(clock: Clock) -> None:
        settings = AttemptSettings(hedge_after=0.05)
        drive = Drive(clock, {"cloud": [after(1.0, answers)], "dc": [NEVER]}, settings)
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        assert (await drive.send(stream=True, tools=tools)).asked == ["cloud"]
        assert (await drive.send(stream=True)).asked[-2:] == ["cloud", "dc"]
        spend_all(drive.target("dc"), clock)
        before = len(drive.sent)
        await drive.send(stream=True)
        assert len(drive.sent) == before + 1

    in_virtual_time(work)


def test_hedges_and_hand_overs_go_to_eligible_targets_alone() -> None:
    async def work(clock: Clock) -> None:
        settings = AttemptSettings(hedge_after=0.1)
        drive = Drive(clock, {"cloud": [after(1.0, answers)], "dc": [answers], "edge": [answers]}, settings)
        found = await drive.send(stream=True, ttft_s=2.0, predictions={"edge": takes(500)}, allowed=["cloud"])
        assert found.asked == ["cloud"]

    in_virtual_time(work)


@pytest.mark.parametrize(
    "headers",
    [
        {"retry_after": "20"},
        {"retry_after_ms": "20000", "retry_after": "9"},
        {"retry_after": formatdate(WALL_S + 20, usegmt=True)},
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_target_that_asked_to_be_left_alone_is_until_then_by_every_request(
    headers: dict[str, str], status: int
) -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [says_busy(status, **headers), answers], "edge": [answers]})
        found = await drive.send()
        assert found.outcomes == [("cloud", "first", "upstream_busy"), ("edge", "fallback", None)]
        standing = drive.target("cloud").standing(clock())
        assert (standing.health, standing.back_in_s) == (Health.RESTING, pytest.approx(20.0))
        assert (await drive.send()).asked[-1] == "edge"
        assert drive.sent[-2].target == "edge"
        await asyncio.sleep(20)
        assert drive.target("cloud").standing(clock()).health is Health.UP
        assert (await drive.send()).asked[-1] == "cloud"

    in_virtual_time(work)


def test_a_wish_to_be_left_alone_for_a_day_is_capped_and_so_is_what_the_caller_is_told() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [says_busy(retry_after="86400")]})
        found = await drive.send()
        assert isinstance(found.error, UpstreamBusy)
        assert found.error.retry_after_s == 60.0
        assert drive.target("cloud").standing(clock()).back_in_s == 60.0

    in_virtual_time(work)


def test_the_only_target_that_may_answer_is_asked_again_once_it_said_it_may_be() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"edge": [says_busy(503, retry_after_ms="700"), answers]})
        found = await drive.send()
        assert found.outcomes == [("edge", "first", "upstream_busy"), ("edge", "retry", None)]
        assert found.took_s == pytest.approx(0.7)

    in_virtual_time(work)


@pytest.mark.parametrize("total_s", [0.5, None])
def test_nobody_is_held_back_for_longer_than_they_have(total_s: float | None) -> None:
    async def work(clock: Clock) -> None:
        wait = "0.7" if total_s else "3"
        drive = Drive(clock, {"edge": [says_busy(503, retry_after=wait), answers]})
        found = await drive.send(total_s=total_s)
        assert isinstance(found.error, UpstreamBusy)
        assert found.took_s == 0.0
        assert len(found.asked) == 1

    in_virtual_time(work)


def test_a_caller_that_hangs_up_while_their_request_is_held_back_leaves_nothing_behind() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"edge": [says_busy(503, retry_after_ms="900"), answers]})
        asked = asyncio.create_task(drive.send())
        await asyncio.sleep(0.5)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert asked.cancelled()
        assert len(drive.sent) == 1
        assert settled(drive)

    in_virtual_time(work)


def test_a_prompt_that_was_too_long_is_asked_again_of_larger_windows_alone() -> None:
    async def work(clock: Clock) -> None:
        options = {"cloud": {"window": 8192}, "edge": {"window": 4096}, "dc": {"window": 32768}}
        drive = Drive(clock, {"cloud": [says_too_long(8192)], "edge": [answers], "dc": [answers]}, options=options)
        found = await drive.send()
        assert found.outcomes == [("cloud", "first", "context_exceeded"), ("dc", "fallback", None)]
        assert drive.target("cloud").standing(clock()).health is Health.UP, "it did nothing wrong"
        none = await drive.send(allowed=["cloud", "edge"])
        assert isinstance(none.error, ContextLengthExceeded)
        assert none.error.http_status == 400

    in_virtual_time(work)


def test_faults_do_not_multiply_load() -> None:
    async def work(clock: Clock) -> None:
        never_opens = {"breaker": BreakerLimits(faults=1 << 30)}  # the budget alone shall hold
        scripts = {"cloud": [says_500], "dc": [says_500]}
        drive = Drive(clock, scripts, options=dict.fromkeys(scripts, never_opens))
        for _ in range(1000):
            await drive.send()
            await asyncio.sleep(0.0001)  # so close together that the steady income is next to nothing
        assert len(drive.sent) <= 1000 * 1.2 + 110

    in_virtual_time(work)


def test_a_target_that_fails_again_and_again_is_left_alone_and_then_asked_once() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [says_500], "edge": [answers]})
        for _ in range(20):
            assert (await drive.send()).error is None
        assert [each.target for each in drive.sent].count("cloud") == 5
        standing = drive.target("cloud").standing(clock())
        assert (standing.health, standing.back_in_s) == (Health.FAILING, 1.0)
        await asyncio.sleep(1.0)
        found = await asyncio.gather(*(drive.send() for _ in range(10)))
        assert all(each.error is None for each in found)
        assert [each.target for each in drive.sent].count("cloud") == 6, "one on trial"

    in_virtual_time(work)


def test_a_trial_whose_caller_hangs_up_does_not_close_the_target_for_good() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [*[says_500] * 5, NEVER, answers], "edge": [answers]})
        for _ in range(5):
            await drive.send()
        await asyncio.sleep(1.0)
        trial = asyncio.create_task(drive.send())
        await asyncio.sleep(0.1)
        trial.cancel()
        await asyncio.gather(trial, return_exceptions=True)
        assert settled(drive)
        assert (await drive.send()).outcomes == [("cloud", "first", None)]

    in_virtual_time(work)


def test_another_address_of_the_same_target_comes_before_another_target() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [says_500], "edge": [answers]}, addresses=2)
        found = await drive.send()
        assert [cause for _, cause, _ in found.outcomes] == ["first", "retry", "fallback"]
        first, second, _ = found.exchange.attempts
        assert first.endpoint != second.endpoint
        assert found.error is None

    in_virtual_time(work)


def test_what_nobody_saw_is_sent_elsewhere_whatever_the_budget() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [refuses_connection], "edge": [answers], "dc": [answers]})
        spend_all(drive.target("edge"), clock)
        assert (await drive.send()).error is None
        alone = await drive.send(allowed=["cloud"])
        assert isinstance(alone.error, NoTargetAvailable)

    in_virtual_time(work)


def test_the_deadline_ends_both_of_two_attempts() -> None:
    async def work(clock: Clock) -> None:
        drive = Drive(clock, {"cloud": [NEVER], "edge": [NEVER]})
        found = await drive.send(stream=True, ttft_s=2.0, predictions={"edge": takes(500)})
        assert isinstance(found.error, DeadlineExceeded)
        assert found.took_s == pytest.approx(2.0)
        assert [outcome for _, _, outcome in found.outcomes] == ["deadline_exceeded"] * 2
        assert settled(drive)

    in_virtual_time(work)


acts = st.one_of(
    st.sampled_from([answers, *FAULTS]),
    st.builds(after, st.sampled_from([0.1, 0.5, 1.0, 3.0]), st.sampled_from([answers, *FAULTS])),
    st.sampled_from([says_busy(retry_after_ms="300"), says_busy(503), says_too_long(100)]),
)
scripts = st.lists(acts, min_size=1, max_size=3)


@given(
    st.fixed_dictionaries({"cloud": scripts, "edge": scripts, "dc": scripts}),
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([None, 0.2, 2.0]), st.sampled_from([None, 0.05, 0.7, 1.2])),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["never", "p95", 0.2]),
    st.integers(1, 2),
)
def test_places_return_to_zero_and_nothing_is_left_running_whatever_happens(
    script: Any, requests: list[tuple[bool, float | None, float | None]], hedge_after: Any, addresses: int
) -> None:
    """Hang-ups in every window: waiting, held back, before the head, beside another attempt, in the stream."""

    async def work(clock: Clock) -> None:
        drive = Drive(clock, script, AttemptSettings(hedge_after=hedge_after), addresses=addresses)
        tasks = []
        for stream, ttft_s, hangs_up_s in requests:
            predictions = {"edge": takes(300), "cloud": takes(400)}
            asked = asyncio.create_task(drive.send(stream=stream, ttft_s=ttft_s, predictions=predictions))
            tasks.append(asked)
            if hangs_up_s is not None:
                asyncio.get_running_loop().call_later(hangs_up_s, asked.cancel)
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(found, BaseException):
                assert (found.error is None) != (found.body is None)
                open_ones = [each for each in found.exchange.attempts if each.outcome is None]
                assert len(open_ones) == (found.exchange.committed_at is not None), (
                    "all but the answer are accounted for"
                )
            else:
                assert isinstance(found, asyncio.CancelledError), found
        assert settled(drive)

    in_virtual_time(work)

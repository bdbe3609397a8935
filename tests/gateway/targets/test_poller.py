"""A target's health follows what its polls find, and nothing ends the polling."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.egress.control import ControlDoor
from gateway.target_settings import TargetProtocol
from gateway.targets.poller import Poller
from gateway.targets.registry import Targets
from routing_policies.snapshot import Health
from tests.support.scripted_runtime import state
from tests.support.scripted_transport import (
    Act,
    ScriptedTransport,
    Stream,
    answers,
    hangs_up,
    redirects,
    refuses_connection,
    scripted_target,
)


def reports(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, stream=Stream(state().model_dump_json().encode()))


def reports_nonsense(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, stream=Stream(b'{"status": "splendid"}'))


def crashes(_: httpx.Request) -> httpx.Response:
    raise KeyError("".join(["a fault", " of our own"]))  # in pieces, so that its source line does not hold it


def connects_to_nothing(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectTimeout("no connection in time")


async def healths(*script: Act) -> list[Health]:
    """The health of a target that was up, before each poll of a script and after the last one."""
    found: list[Health] = []
    over = asyncio.Event()

    def on_sent() -> None:
        found.append(target.health)
        if len(found) > len(script):
            over.set()

    target = scripted_target("edge", [answers], [], protocol=TargetProtocol.TIDEGATE)
    replica = target.pool.best()
    replica.control = ControlDoor(replica.endpoint, ScriptedTransport("edge", script, [], on_sent))
    polling = asyncio.create_task(Poller(Targets({"edge": target}), interval_s=0.0).run())
    async with asyncio.timeout(10):
        await over.wait()
    assert not polling.done()
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    return found[: len(script) + 1]


async def test_nobody_listening_marks_a_target_down_at_once() -> None:
    assert await healths(refuses_connection) == [Health.UP, Health.DOWN]


@pytest.mark.parametrize("fails", [hangs_up, redirects, reports_nonsense, connects_to_nothing, crashes])
async def test_polls_that_fail_otherwise_mark_it_down_at_the_third_in_a_row(fails: Act) -> None:
    found = await healths(fails, fails, reports, fails, fails, fails, reports)
    assert found == [*[Health.UP] * 6, Health.DOWN, Health.UP]


async def test_a_fault_of_our_own_is_logged_once_and_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    await healths(crashes, crashes, crashes, crashes)
    assert [record.name for record in caplog.records] == ["gateway.targets.poller"]
    assert "KeyError" in caplog.text
    assert "a fault of our own" not in caplog.text

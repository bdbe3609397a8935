"""Limits on tokens: reserved at worst before anything is sent, settled to what was used, for keys as for tenants."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gateway.access.account import Need
from gateway.access.usage_file import UsageFile
from gateway.allowance import Allowance
from gateway.quota import Quotas
from inference_protocol.errors import InvalidField, QuotaExceeded
from tests.gateway.conftest import House, HouseFactory
from tests.gateway.test_quota import bearer, key, principal
from tests.support.scripted_runtime import USAGE, Answer, Received, ScriptedRuntime, event, says, state
from tests.support.waiting import until

USED = USAGE["total_tokens"]


def left(response: Any) -> int:
    return int(response.headers["x-ratelimit-remaining-tokens"])


async def test_fifty_calls_at_once_cannot_take_more_than_their_key_may(house: HouseFactory) -> None:
    go_on = asyncio.Event()

    async def held(request: Received) -> None:
        await go_on.wait()
        await says("done")(request)

    keys = [key("some", tokens_per_minute=300)]
    async with house(edge=ScriptedRuntime(held), auth={"keys": keys}) as h:
        calls = [asyncio.create_task(h.gateway.chat(max_tokens=50, headers=bearer("some"))) for _ in range(50)]
        await until(lambda: sum(call.done() for call in calls) >= 44)
        inside = [call for call in calls if not call.done()]
        # Each may take its prompt and 50 tokens more.
        assert 1 <= len(inside) <= 5
        go_on.set()
        found = Counter([(await call).status_code for call in calls])
        assert found == {200: len(inside), 429: 50 - len(inside)}
        await h.until_settled(50)
        # Settled to what they used, so that there is room for far more than was reserved.
        assert left(await h.gateway.chat(max_tokens=0, headers=bearer("some"))) > 300 - (len(inside) + 1) * USED - 30


async def test_a_refusal_says_when_there_is_room_and_what_is_left(house: HouseFactory) -> None:
    async with house(auth={"keys": [key("some", tokens_per_minute=1000, requests_per_minute=10)]}) as h:
        first = await h.gateway.chat(max_tokens=60, headers=bearer("some"))
        assert first.headers["x-ratelimit-limit-tokens"] == "1000"
        assert first.headers["x-ratelimit-remaining-requests"] == "9"
        await h.until_settled(1)
        await took_some(h)
        refused = await h.gateway.chat(max_tokens=600, headers=bearer("some"))
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (429, "quota_exceeded")
        assert error["details"] == {"reason": "rejected-tokens", "limit": 1000, "window": "minute"}
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.headers["x-ratelimit-reset-tokens"].endswith("s")
        assert refused.headers["x-ratelimit-remaining-requests"] == "7"
        assert not [post for post in h.edge.posts + h.cloud.posts if post.json["max_tokens"] == 600]
        assert (await h.gateway.chat(max_tokens=20, headers=bearer("some"))).status_code == 200


async def took_some(h: House) -> None:
    """A request whose target says that it took 500 tokens."""
    before = len(h.outcomes())
    h.edge.answer = h.cloud.answer = says_it_took(500)
    assert (await h.gateway.chat(max_tokens=1, headers=bearer("some"))).status_code == 200
    await h.until_settled(before + 1)
    h.edge.answer = h.cloud.answer = says("fine")


def says_it_took(tokens: int) -> Answer:
    async def answer(request: Received) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
        await request.json_answer(200, {"id": "c", "model": request.json["model"], "choices": [choice], "usage": usage})

    return answer


async def test_what_no_wait_makes_room_for_is_refused_for_good(house: HouseFactory) -> None:
    async with house(auth={"keys": [key("some", tokens_per_day=100)]}) as h:
        refused = await h.gateway.chat(max_tokens=101, headers=bearer("some"))
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "max_tokens")
        assert "retry-after" not in refused.headers


async def test_callers_of_a_tenant_share_what_it_may_and_others_do_not_notice(house: HouseFactory) -> None:
    keys = [{**key("some"), "tenant": "acme"}, {**key("peer"), "tenant": "acme"}, key("other")]
    auth = {"keys": keys, "tenants": {"acme": {"tokens_per_minute": 1000, "requests_per_minute": 3}}}
    async with house(auth=auth) as h:
        await took_some(h)
        refused = await h.gateway.chat(max_tokens=600, headers=bearer("peer"))
        assert "This tenant may take 1000 tokens a minute" in refused.json()["error"]["message"]
        other = await h.gateway.chat(max_tokens=600, headers=bearer("other"))
        assert (other.status_code, "x-ratelimit-limit-tokens" in other.headers) == (200, False)
        assert (await h.gateway.chat(max_tokens=5, headers=bearer("some"))).status_code == 200
        over = await h.gateway.chat(max_tokens=5, headers=bearer("peer"))
        assert over.json()["error"]["details"]["reason"] == "rejected-rate"


async def test_a_long_prompt_is_counted_exactly_before_it_is_refused(house: HouseFactory) -> None:
    text = "word " * 150  # 750 bytes, which is the safe bound, and far fewer tokens
    async with house(auth={"keys": [key("some", tokens_per_minute=400)]}) as h:
        assert (await h.gateway.chat(text, max_tokens=10, headers=bearer("some"))).status_code == 200


async def test_a_request_without_a_cap_reserves_a_window_and_gets_back_what_it_did_not_use(house: HouseFactory) -> None:
    go_on = asyncio.Event()

    async def held(request: Received) -> None:
        await go_on.wait()
        await says("done")(request)

    runtimes = {"edge": ScriptedRuntime(held), "cloud": ScriptedRuntime(held, state(window=2048))}
    async with house(**runtimes, auth={"keys": [key("some", tokens_per_minute=3000)]}) as h:
        first = asyncio.create_task(h.gateway.chat(headers=bearer("some")))
        await until(lambda: bool(h.edge.posts + h.cloud.posts))
        assert (await h.gateway.chat(headers=bearer("some"))).status_code == 429
        go_on.set()
        assert (await first).status_code == 200
        await h.until_settled(2)
        assert (await h.gateway.chat(headers=bearer("some"))).status_code == 200


async def test_a_caller_who_hangs_up_pays_for_what_came_and_no_more(house: HouseFactory) -> None:
    async def hangs(request: Received) -> None:
        await request.head()
        for _ in range(3):
            await request.chunk(event(content="a"))
        await asyncio.Event().wait()

    async with house(edge=ScriptedRuntime(hangs), auth={"keys": [key("some", tokens_per_minute=500)]}) as h:
        body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "stream": True, "max_tokens": 300}
        client = h.gateway.client
        async with client.stream("POST", "/v1/chat/completions", json=body, headers=bearer("some")) as response:
            assert left(response) < 200
            await anext(response.aiter_bytes())
        await h.until_settled(1)
        refused = await h.gateway.chat(max_tokens=470, headers=bearer("some"))
        assert refused.status_code == 429
        assert 400 < left(refused) < 497


async def test_an_answer_that_fails_costs_nothing(house: HouseFactory) -> None:
    async def fails(request: Received) -> None:
        await request.json_answer(500, {"error": {"message": "no"}})

    broken = {"edge": ScriptedRuntime(fails), "cloud": ScriptedRuntime(fails, state(window=8192))}
    async with house(**broken, auth={"keys": [key("some", tokens_per_minute=500)]}) as h:
        assert (await h.gateway.chat(max_tokens=300, headers=bearer("some"))).status_code == 502
        await h.until_settled(1)
        h.edge.answer = says("fine")
        answered = await h.gateway.chat(max_tokens=450, headers=bearer("some"))
        assert answered.status_code == 200


async def test_a_restart_gives_nobody_a_new_day(house: HouseFactory, tmp_path: Path) -> None:
    auth = {"keys": [key("some", tokens_per_day=1000)]}
    async with house(auth=auth) as h:
        await took_some(h)
    async with house(auth=auth) as h:
        assert (await h.gateway.chat(max_tokens=600, headers=bearer("some"))).status_code == 429
        assert (await h.gateway.chat(max_tokens=10, headers=bearer("some"))).status_code == 200
    assert json.loads((tmp_path / "state" / "usage.json").read_text()).keys() == {"key some"}


def test_what_was_kept_decays_while_nobody_comes_and_a_clock_that_jumps_takes_no_more_than_a_day(
    tmp_path: Path,
) -> None:
    now, wall = 0.0, 1_000_000.0
    file = UsageFile(tmp_path / "usage.json", wall=lambda: wall)
    quotas = Quotas(clock=lambda: now, kept=file.load())
    some = principal(Allowance(tokens_per_day=86_400))
    quotas.grant(some).reserve(Need(40_000, 40_000))
    file.write(quotas.kept())

    def restarted() -> int:
        again = Quotas(clock=lambda: now, kept=file.load())
        file.write(again.kept())  # as it does each second, also before anybody came
        return int(again.grant(some).headers()["x-ratelimit-remaining-tokens"])

    assert restarted() == pytest.approx(46_400, abs=2)
    wall += 10_000
    assert restarted() == pytest.approx(56_400, abs=2)
    wall -= 1e9
    assert restarted() == 0
    now += 86_400
    wall += 86_400
    damaged = tmp_path / "usage.json"
    damaged.write_text('{"key some": {"day": "soon"}}')
    assert restarted() == 86_400


def test_reserving_is_all_or_nothing_and_settling_happens_once() -> None:
    now = 0.0
    quotas = Quotas(clock=lambda: now)
    some = principal(Allowance(tokens_per_minute=1000), Allowance(tokens_per_minute=100))
    with pytest.raises(QuotaExceeded):
        quotas.grant(some).reserve(Need(101 - 1, 1)) or quotas.grant(some).reserve(Need(50, 1))
    with pytest.raises(InvalidField):
        quotas.grant(some).reserve(Need(500, 500))
    lone = principal(Allowance(tokens_per_minute=1000))
    assert quotas.grant(lone).headers()["x-ratelimit-remaining-tokens"] == "900"
    grant = quotas.grant(lone)
    grant.reserve(Need(300, 1))
    for _ in range(2):
        grant.settle(lambda: 100)
    assert grant.headers()["x-ratelimit-remaining-tokens"] == "800"


def test_accounts_that_hold_nothing_make_room_and_others_stay() -> None:
    now = 0.0
    quotas = Quotas(clock=lambda: now)
    limited = Allowance(tokens_per_minute=100)
    quotas.grant(principal(limited, name="busy")).reserve(Need(100, 1))
    for number in range(20_100):
        quotas.grant(principal(limited, name=f"k{number}"))
    assert len(quotas._accounts) <= 10_001
    with contextlib.suppress(QuotaExceeded):
        quotas.grant(principal(limited, name="busy")).reserve(Need(100, 1))
        pytest.fail("what it had taken was forgotten")

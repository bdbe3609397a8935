"""What a key may take is its own limit: a 429 that says when to come back, and nobody else notices."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import httpx
import pytest

from gateway.allowance import Allowance
from gateway.principal import Principal
from gateway.quota import Quotas
from inference_protocol.errors import QuotaExceeded
from routing_policies.view import Tenant
from tests.gateway.conftest import House, HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, event
from tests.support.waiting import until

SECRET = "s" * 32


def key(name: str, **limits: Any) -> dict[str, Any]:
    return {"id": name, "secret_sha256": hashlib.sha256(SECRET.encode()).hexdigest(), "tenant": name, **limits}


def principal(allowance: Allowance | None = None, tenant: Allowance | None = None, name: str = "some") -> Principal:
    return Principal(name, Tenant("t"), allowance=allowance, tenant_allowance=tenant)


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}.{SECRET}"}


def test_requests_beyond_the_rate_are_refused_and_told_exactly_when_to_come_back() -> None:
    now = 100.0
    quotas = Quotas(clock=lambda: now)
    some = principal(Allowance(requests_per_minute=3))
    for _ in range(3):
        with quotas.grant(some).place():
            pass
    with pytest.raises(QuotaExceeded) as refused, quotas.grant(some).place():
        pass
    assert refused.value.retry_after_s == pytest.approx(20.0)
    now += 20.0
    with quotas.grant(some).place():
        pass
    with pytest.raises(QuotaExceeded), quotas.grant(some).place():
        pass


async def test_the_limit_of_one_key_is_a_429_for_it_alone(house: HouseFactory) -> None:
    keys = [key("limited", requests_per_minute=1), key("other-one")]
    async with house(auth={"keys": keys}) as h:
        assert (await h.gateway.chat(headers=bearer("limited"))).status_code == 200
        refused = await h.gateway.chat(headers=bearer("limited"))
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "quota_exceeded"
        assert refused.headers["x-tidegate-reason"] == refused.json()["error"]["details"]["reason"] == "rejected-rate"
        assert 55 <= int(refused.headers["retry-after"]) <= 60
        assert (await h.gateway.chat(headers=bearer("other-one"))).status_code == 200
        assert [each["outcome"] for each in await h.until_settled(3)] == ["ok", "quota_exceeded", "ok"]


async def test_a_place_comes_back_however_a_stream_ends(house: HouseFactory) -> None:
    async def hangs(request: Received) -> None:
        await request.head()
        await request.chunk(event(content="a"))
        await asyncio.Event().wait()

    async with house(edge=ScriptedRuntime(hangs), auth={"keys": [key("limited", concurrent_requests=1)]}) as h:
        for count in range(1, 4):
            async with streamed(h) as response:
                await anext(response.aiter_bytes())
                refused = await h.gateway.chat(headers=bearer("limited"))
                assert refused.json()["error"]["details"]["reason"] == "rejected-concurrency"
            await until(lambda count=count: len(h.outcomes()) == 2 * count)  # type: ignore[misc]  # a default binds it


def streamed(h: House) -> Any:
    body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    request: httpx.AsyncClient = h.gateway.client
    return request.stream("POST", "/v1/chat/completions", json=body, headers=bearer("limited"))

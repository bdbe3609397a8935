"""The machine's clock is set, forward or back, in the middle of everything: only what goes by the calendar notices."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from routing_policies.snapshot import Health
from tests.gateway.conftest import House
from tests.support.running_gateway import running_gateway, settings_for
from tests.support.scripted_runtime import Answer, Received, ScriptedRuntime, says

DAY_S = 86_400.0


class Wall:
    """The clock on the wall, which somebody sets."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


def key(**fields: Any) -> dict[str, Any]:
    digest = hashlib.sha256(b"secret").hexdigest()
    return {"id": "phone", "secret_sha256": digest, "tenant": "acme", "roles": ["inference"], **fields}


@asynccontextmanager
async def walled(folder: Path, wall: Wall, answer: Answer, *, keys: list[dict[str, Any]]) -> AsyncIterator[House]:
    async with ScriptedRuntime(answer) as edge, ScriptedRuntime(answer) as cloud:
        settings = settings_for(folder, edge=edge.endpoint, cloud=cloud.endpoint, auth={"keys": keys})
        async with running_gateway(settings, wall=wall) as gateway:
            await gateway.until_health(edge=Health.UP, cloud=Health.UP)
            yield House(gateway, edge, cloud)


async def asks(h: House, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await h.gateway.chat(headers={"authorization": "Bearer phone.secret", **named})


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S])
async def test_a_limit_by_the_minute_is_neither_lifted_nor_stuck(tmp_path: Path, jump_s: float) -> None:
    wall = Wall()
    async with walled(tmp_path, wall, says("fine"), keys=[key(requests_per_minute=2)]) as h:
        first = [(await asks(h)).status_code for _ in range(3)]
        wall.ahead_s += jump_s
        refused = await asks(h)
    assert (first, refused.status_code) == ([200, 200, 429], 429)
    assert 0 < int(refused.headers["retry-after"]) <= 60


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S])
async def test_a_request_under_way_keeps_its_budget_and_its_record_its_times(tmp_path: Path, jump_s: float) -> None:
    wall = Wall()

    async def meanwhile(request: Received) -> None:
        wall.ahead_s += jump_s
        await says("fine")(request)

    before = datetime.now(UTC)
    async with walled(tmp_path, wall, meanwhile, keys=[key()]) as h:
        response = await asks(h, x_latency_budget_ms="20000")
        [record] = await h.until_settled(1)
    assert (response.status_code, record["outcome"]) == (200, "ok")
    assert 0 <= record["commit_ms"] <= record["duration_ms"] < 20_000
    assert abs(datetime.fromisoformat(record["time"]) - before) < timedelta(minutes=5), "it is of when it began"

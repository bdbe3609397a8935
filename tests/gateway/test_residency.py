"""Data of a caller who lives in the EU reaches no target elsewhere, whatever happens on the way: the whole gateway."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.settings import Settings
from inference_protocol.request import Task
from routing_policies.policy.loader import load_policy
from routing_policies.snapshot import Health
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.scripted_runtime import MODEL, Answer, Received, ScriptedRuntime, says, state
from tests.support.waiting import until

SECRET = "s" * 43
OF = {"eu": "eu-de", "us": "us-east", "nowhere": ""}
TARGETS = ("edge", "cloud-eu", "cloud")


async def fails(request: Received) -> None:
    await request.json_answer(500, {"error": {"message": "out of order"}})


async def is_busy(request: Received) -> None:
    await request.json_answer(503, {"error": {"message": "full"}}, "retry-after-ms: 0\r\n")


async def hangs_up(request: Received) -> None:
    request.cut()


async def breaks_off(request: Received) -> None:
    await request.head()
    request.cut()


@dataclass
class House:
    gateway: RunningGateway
    runtimes: Mapping[str, ScriptedRuntime]

    def asked(self, name: str) -> int:
        return len(self.runtimes[name].posts)

    async def ask(self, caller: str, headers: Mapping[str, str] | None = None, **fields: Any) -> httpx.Response:
        shown = {"authorization": f"Bearer {caller}-key.{SECRET}", **(headers or {})}
        return await self.gateway.chat("hello", headers=shown, **fields)


@asynccontextmanager
async def house(
    folder: Path, answers: Mapping[str, Answer], able: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncIterator[House]:
    """Targets on this device, in the EU and elsewhere; the last would be asked first by whoever may."""
    speed = {"edge": 2.0, "cloud-eu": 2.0, "cloud": 1.0}
    runtimes = {
        name: ScriptedRuntime(
            answers.get(name, says(name)), state(ms_per_token=speed[name], window=8192, tasks=frozenset(Task))
        )
        for name in TARGETS
    }
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    keys = [
        {
            "id": f"{caller}-key",
            "secret_sha256": digest,
            "tenant": caller,
            "residency": region,
            "data_class": "public",
            "may": ["defer"],
        }
        for caller, region in OF.items()
    ]
    async with runtimes["edge"], runtimes["cloud-eu"], runtimes["cloud"]:
        targets = {
            name: {"endpoints": [runtime.endpoint], "protocol": "tidegate", "models": {MODEL: MODEL}}
            | (able or {}).get(name, {})
            for name, runtime in runtimes.items()
        }
        configured = Settings(state_dir=folder, targets=targets, auth={"keys": keys}, **settings)
        async with running_gateway(configured, load_policy("eu-residency")) as gateway:
            await gateway.until_health(**dict.fromkeys(TARGETS, Health.UP))
            yield House(gateway, runtimes)


@pytest.mark.parametrize("fault", [fails, is_busy, hangs_up, breaks_off], ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("caller", ["eu", "nowhere"])
async def test_a_fallback_or_retry_stays_in_the_region(tmp_path: Path, caller: str, fault: Answer) -> None:
    async with house(tmp_path, {"edge": fault, "cloud-eu": fault}) as h:
        assert (await h.ask(caller)).status_code >= 500
        assert h.asked("edge") > 0
        assert h.asked("cloud-eu") > 0
        assert h.asked("cloud") == 0
        # The same way is open to who may take it, so that it is the residency that closes it.
        elsewhere = await h.ask("us")
        assert (elsewhere.status_code, elsewhere.headers["x-tidegate-target"]) == (200, "cloud")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"model": MODEL, "prompt": "hello"}),
        ("/v1/embeddings", {"model": MODEL, "input": "hello"}),
        (
            f"/v2/models/{MODEL}/infer",
            {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": ["hello"]}]},
        ),
    ],
)
async def test_every_task_stays_in_the_region(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    able = {name: {"capabilities": {"embeddings": True, "tensors": True}} for name in TARGETS}
    async with house(tmp_path, dict.fromkeys(TARGETS, fails), able) as h:
        headers = {caller: {"authorization": f"Bearer {caller}-key.{SECRET}"} for caller in OF}
        assert (await h.gateway.client.post(path, json=body, headers=headers["eu"])).status_code >= 500
        assert h.asked("edge") > 0
        assert h.asked("cloud-eu") > 0
        assert h.asked("cloud") == 0
        await h.gateway.client.post(path, json=body, headers=headers["us"])
        assert h.asked("cloud") > 0


async def test_a_hedge_stays_in_the_region(tmp_path: Path) -> None:
    async def never(request: Received) -> None:
        await request.head()
        await until(lambda: h.asked("cloud-eu") > 0 and h.asked("edge") > 0)
        await request.json_answer(200, {})

    async with house(tmp_path, {"edge": never, "cloud-eu": never}, attempts={"hedge_after": 0.05}) as h:
        await h.ask("eu", {"x-latency-budget-ms": "2000"})
        assert h.asked("edge") == h.asked("cloud-eu") == 1
        assert h.asked("cloud") == 0


async def test_a_deferred_request_waits_for_its_region(tmp_path: Path) -> None:
    async with house(tmp_path, {}, outbox={"flush_per_s": 50.0}) as h:
        for name in ("edge", "cloud-eu"):
            await h.runtimes[name].stop()
        await h.gateway.until_health(**dict.fromkeys(("edge", "cloud-eu"), Health.DOWN))
        kept = await h.ask("eu", deferrable=True)
        assert kept.status_code == 202
        assert (await h.ask("us", deferrable=True)).headers["x-tidegate-target"] == "cloud"
        asked_before = h.asked("cloud")
        await h.runtimes["cloud-eu"].start()
        await until(lambda: h.asked("cloud-eu") > 0, within_s=30)
        assert h.asked("cloud") == asked_before

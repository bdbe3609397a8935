"""What a target is reached by may be replaced while the gateway runs: credentials in files, and everything else."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.settings import Settings
from gateway.targets.poller import Poller
from gateway.targets.registry import Targets
from gateway.targets.target import Target
from gateway.targets.wiring import wire_target
from tests.support.scripted_runtime import MODEL, ScriptedRuntime
from tests.support.waiting import until


def target_with(tmp_path: Path, endpoint: str, credential: dict[str, Any]) -> Target:
    edge = {"endpoints": [endpoint], "protocol": "tidegate", "models": {MODEL: MODEL}, "credential": credential}
    settings = Settings(state_dir=tmp_path, targets={"edge": edge, "cloud": None})
    return wire_target("edge", settings, clock=time.monotonic, draw=random.Random(1))


async def test_a_credential_that_is_replaced_is_shown_from_then_on_and_an_unreadable_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    path.write_text("old-token", encoding="utf-8")
    async with ScriptedRuntime() as runtime:
        target = target_with(tmp_path, runtime.endpoint, {"file": path})
        targets = Targets({"edge": target})
        polling = asyncio.create_task(Poller(targets, interval_s=0.01, renew_s=0.02).run())

        def shown() -> set[str | None]:
            return {request.headers.get("authorization") for request in runtime.requests[-1:]}

        await until(lambda: shown() == {"Bearer old-token"})
        path.write_text("new-token", encoding="utf-8")
        await until(lambda: shown() == {"Bearer new-token"})
        assert target.credential == {"authorization": "Bearer new-token"}
        path.unlink()
        await until(lambda: "edge keeps what it has" in caplog.text)
        assert shown() == {"Bearer new-token"}
        assert "new-token" not in caplog.text
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await targets.aclose()


async def test_whoever_asks_for_it_has_everything_looked_at_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old-token", encoding="utf-8")
    async with ScriptedRuntime() as runtime:
        target = target_with(tmp_path, runtime.endpoint, {"file": path})
        targets = Targets({"edge": target})
        poller = Poller(targets, interval_s=0.01, renew_s=3600)
        polling = asyncio.create_task(poller.run())
        await until(lambda: bool(runtime.requests))
        path.write_text("new-token", encoding="utf-8")
        poller.ask_to_renew()
        await until(lambda: runtime.requests[-1].headers.get("authorization") == "Bearer new-token", within_s=10)
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await targets.aclose()

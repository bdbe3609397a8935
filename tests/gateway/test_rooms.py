"""What goes on beside requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.targets.poller import Poller
from routing_policies.policy.loader import load_policy
from tests.support.running_gateway import running_gateway, settings_for
from tests.support.waiting import until


async def test_what_ends_beside_requests_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(_: Poller) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Poller, "run", breaks)
    async with running_gateway(
        settings_for(tmp_path, edge="http://127.0.0.1:9", cloud="http://127.0.0.1:9"), load_policy("balanced")
    ) as gateway:
        await until(lambda: any("poller has ended" in record.getMessage() for record in caplog.records))
        assert (await gateway.client.get("/livez")).status_code == 200

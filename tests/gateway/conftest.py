from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.records.reader import read_records
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.snapshot import Health
from tests.support.canaries import Sinks
from tests.support.running_gateway import RunningGateway, running_gateway, settings_for
from tests.support.scripted_runtime import ScriptedRuntime, state
from tests.support.tokenizer import write_word_tokenizer
from tests.support.waiting import until


@dataclass
class House:
    """A gateway with a scripted runtime on each side."""

    gateway: RunningGateway
    edge: ScriptedRuntime
    cloud: ScriptedRuntime

    def outcomes(self) -> list[dict[str, Any]]:
        """The outcome records so far, oldest first; one is written when its request has been settled."""
        records = read_records(self.gateway.state_dir / "records")
        return [record for record in records if record["kind"] == "outcome"]

    async def until_settled(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many requests have been settled."""
        await until(lambda: len(self.outcomes()) >= count)
        return self.outcomes()


HouseFactory = Callable[..., AbstractAsyncContextManager[House]]


@pytest.fixture
def house(tmp_path: Path) -> HouseFactory:
    """Build a house: `async with house(edge=ScriptedRuntime(...), **settings) as h`."""

    @asynccontextmanager
    async def build(
        *,
        edge: ScriptedRuntime | None = None,
        cloud: ScriptedRuntime | None = None,
        loaded: LoadedPolicy | None = None,
        keep_prefixes: str | None = None,
        **settings: Any,
    ) -> AsyncIterator[House]:
        edge = edge or ScriptedRuntime()
        cloud = cloud or ScriptedRuntime(report=state(window=8192))
        # The edge stands on TCP here, which changes nothing: what may leave goes by a target's kind, not its address.
        async with edge, cloud:
            write_word_tokenizer(tmp_path / "models" / "smollm2-135m-instruct-q4_1")
            configured = settings_for(tmp_path, edge=edge.endpoint, cloud=cloud.endpoint, **settings)
            runtime = configured.edge.model_copy(update={"keep_prefixes": keep_prefixes})
            configured = configured.model_copy(update={"edge": runtime})
            async with running_gateway(configured, loaded) as gateway:
                await gateway.until_health(edge=Health.UP, cloud=Health.UP)
                yield House(gateway, edge, cloud)

    return build


@pytest.fixture
def sinks(tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Sinks:
    """Everything that may be read by somebody who is not the caller."""
    caplog.set_level(logging.INFO)
    return Sinks(tmp_path, caplog, capfd)

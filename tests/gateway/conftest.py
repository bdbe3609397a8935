from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.snapshot import Health
from tests.support.running_gateway import RunningGateway, running_gateway, settings_for
from tests.support.scripted_runtime import ScriptedRuntime, state
from tests.support.tokenizer import write_word_tokenizer


@dataclass
class House:
    """A gateway with a scripted runtime on each side."""

    gateway: RunningGateway
    edge: ScriptedRuntime
    cloud: ScriptedRuntime


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
        **settings: Any,
    ) -> AsyncIterator[House]:
        edge = edge or ScriptedRuntime()
        cloud = cloud or ScriptedRuntime(report=state(window=8192))
        # The edge stands on TCP here, which changes nothing: what may leave goes by a target's kind, not its address.
        async with edge, cloud:
            write_word_tokenizer(tmp_path / "models" / "smollm2-135m-instruct-q4_1")
            configured = settings_for(tmp_path, edge=edge.endpoint, cloud=cloud.endpoint, **settings)
            async with running_gateway(configured, loaded) as gateway:
                await gateway.until_health(edge=Health.UP, cloud=Health.UP)
                yield House(gateway, edge, cloud)

    return build

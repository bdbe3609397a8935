"""The whole gateway on a real socket inside the test's own event loop, in front of scripted runtimes."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from gateway.app import App, create_app
from gateway.policies.holder import InForce, Version
from gateway.policies.start import Begun, begin
from gateway.policies.store import VersionStore
from gateway.policies.wiring import demands_of
from gateway.settings import Settings
from observability import Telemetry, TelemetrySettings, set_up
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.snapshot import Health
from serving.http_protocol import BoundedHttpProtocol
from tests.support.scripted_runtime import MODEL
from tests.support.waiting import until


@dataclass
class RunningGateway:
    """A gateway that answers at `url`."""

    url: str
    app: App
    client: httpx.AsyncClient
    state_dir: Path

    async def chat(
        self, text: str = "hello", *, headers: dict[str, str] | None = None, **fields: Any
    ) -> httpx.Response:
        body = {"model": "auto", "messages": [{"role": "user", "content": text}], **fields}
        return await self.client.post("/v1/chat/completions", json=body, headers=headers or {})

    async def until_health(self, **wanted: Health) -> None:
        """Wait until the poller has seen each named target in that health."""
        await until(lambda: all(self.app.targets[name].health is health for name, health in wanted.items()))


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def settings_for(
    state_dir: Path, *, edge: str | None, cloud: str | None, protocol: str = "tidegate", **fields: Any
) -> Settings:
    """Settings whose two targets stand at these endpoints."""
    targets: dict[str, Any] = {
        name: {"endpoints": [endpoint], "protocol": protocol, "models": {MODEL: MODEL}} if endpoint else None
        for name, endpoint in (("edge", edge), ("cloud", cloud))
    }
    return Settings(state_dir=state_dir, targets=targets, **fields)


@asynccontextmanager
async def running_gateway(
    settings: Settings,
    policy: LoadedPolicy | None = None,
    telemetry: TelemetrySettings | None = None,
    wall: Callable[[], float] = time.time,
) -> AsyncIterator[RunningGateway]:
    """Serve until the block ends; `wall` gives seconds since the epoch."""
    spans: Telemetry = set_up(telemetry or TelemetrySettings("gateway", settings.folder.traces, None))
    settings.folder.policies.mkdir(mode=0o700, parents=True, exist_ok=True)
    if policy is None:
        begun = begin(VersionStore(settings.folder.policies), demands_of(settings), settings.policy, time.time)
    else:
        # It is in no file, so nobody looks for a change of one.
        begun = Begun(InForce(Version(1, policy.digest, policy)))
        settings = settings.model_copy(update={"rollout": settings.rollout.model_copy(update={"watch": False})})
    app = create_app(settings, begun, spans.tracer, wall=wall)
    spans.export_metrics(app.meters)
    server = uvicorn.Server(
        uvicorn.Config(app.asgi, http=BoundedHttpProtocol, log_level="warning", access_log=False, lifespan="on")
    )
    sock = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        await until(lambda: server.started)
        async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
            yield RunningGateway(url, app, client, settings.state_dir)
    finally:
        server.should_exit = True
        await serving
        spans.shutdown(2.0)

"""`tidegate serve` in a process of its own, in front of scripted runtimes, with whatever settings a test needs."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.running_gateway import free_port
from tests.support.scripted_runtime import MODEL, ScriptedRuntime
from tests.support.waiting import until


@dataclass
class Serving:
    """The process and what reaches it."""

    process: asyncio.subprocess.Process
    folder: Path
    url: str
    admin_url: str

    @property
    def settings(self) -> Path:
        return self.folder / "tidegate.yaml"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


@asynccontextmanager
async def serving(
    folder: Path,
    edge: ScriptedRuntime,
    cloud: ScriptedRuntime,
    *,
    trusted: ssl.SSLContext | None = None,
    environment: Mapping[str, str] | None = None,
    cloud_target: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Serving]:
    """Serve until the block ends; `trusted` where the address is one of TLS."""
    port, admin = free_port(), free_port()
    targets: dict[str, Any] = {
        name: {"endpoints": [runtime.endpoint], "protocol": "tidegate", "models": {MODEL: MODEL}}
        for name, runtime in (("edge", edge), ("cloud", cloud))
    }
    targets["cloud"] |= dict(cloud_target or {})
    listen = {"port": port, **settings.pop("listen", {})}
    admin_listen = {"port": admin, **settings.pop("admin", {})}
    told = {"state_dir": str(folder / "state"), "listen": listen, "admin": admin_listen, "targets": targets, **settings}
    (folder / "tidegate.yaml").write_text(yaml.safe_dump(told))
    scheme = "http" if trusted is None else "https"
    own = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    command = [sys.executable, "-m", "gateway.cli", "serve", "--settings", str(folder / "tidegate.yaml")]
    with (folder / "log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=log, stderr=log, env={**own, **(environment or {})}
        )
    found = Serving(process, folder, f"{scheme}://127.0.0.1:{port}", f"http://127.0.0.1:{admin}")
    try:
        await until(lambda: _answers(found, trusted), within_s=60)
        yield found
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(40):
            await process.wait()


async def _answers(found: Serving, trusted: ssl.SSLContext | None) -> bool:
    assert found.process.returncode is None, found.log
    try:
        async with httpx.AsyncClient(verify=trusted or True, trust_env=False) as client:
            return (await client.get(f"{found.url}/readyz")).status_code == 200
    except httpx.TransportError:
        return False

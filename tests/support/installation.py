"""`tidegate up` with the real models, as a person starts it, on ports and in a state folder of the test's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.running_gateway import free_port

START_S = 120.0


@dataclass
class Installation:
    """The three programs, and what a test does with them."""

    process: subprocess.Popen[str]
    url: str
    settings: Path
    state_dir: Path
    log: Path
    cloud_url: str

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=10, trust_env=False)

    def chat(self, text: str, *, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        body = {"model": "auto", "messages": [{"role": "user", "content": text}], "temperature": 0, **fields}
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, headers=headers, timeout=120, trust_env=False)

    def health(self) -> dict[str, str]:
        try:
            targets = self.get("/readyz").json()["targets"]
        except httpx.TransportError:
            return {}
        return {name: target["health"] for name, target in targets.items()}

    def cloud_is_running(self) -> int:
        """Requests that the stand-in works on, by its own report."""
        report = httpx.get(f"{self.cloud_url}/internal/state", timeout=10, trust_env=False).json()
        return int(report["running"])

    def trace_id_of(self, request_id: str) -> str:
        """The trace that a request's records name."""
        for path in self.state_dir.glob("records/*.jsonl"):
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if record["request_id"] == request_id:
                    return str(record["trace_id"])
        raise AssertionError(f"no record of {request_id}")

    def until_health(self, **wanted: str) -> None:
        self.until(lambda: wanted.items() <= self.health().items(), f"targets to be {wanted}")

    def until(self, true: Callable[[], bool], what: str, within_s: float = START_S) -> None:
        end = time.monotonic() + within_s
        while not true():
            assert self.process.poll() is None, f"`tidegate up` ended:\n{self.log.read_text()}"
            assert time.monotonic() < end, f"waited in vain for {what}:\n{self.log.read_text()[-4000:]}"
            time.sleep(0.05)

    def pid_of(self, program: str) -> int | None:
        """The process of `edge_runtime`, `cloud_runtime` or `gateway.cli`, among the children of `tidegate up`."""
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            try:
                argv = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if program.encode() in argv:
                return int(child)
        return None

    def kill(self, program: str) -> None:
        pid = self.pid_of(program)
        assert pid is not None, f"{program} does not run"
        os.kill(pid, signal.SIGKILL)

    def tidegate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a `tidegate` command against this installation."""
        return subprocess.run(
            [sys.executable, "-m", "gateway.cli", *arguments, "--settings", str(self.settings)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@contextmanager
def installed(
    state_dir: Path, models_dir: Path, extra: str = "", *, other_cloud: int | None = None
) -> Iterator[Installation]:
    """Start everything, and stop it at the end of the block.

    Args:
        state_dir: Where its state lies.
        models_dir: Where its models are.
        extra: More lines of its settings.
        other_cloud: Port of a server that stands in for the stand-in, which is not started then.
    """
    state_dir.mkdir(mode=0o700, exist_ok=True)
    (state_dir / "models").symlink_to(models_dir)
    (state_dir / "keys").mkdir(mode=0o700)
    (state_dir / "keys" / "models").symlink_to(models_dir.parent / "keys" / "models")
    gateway, admin, cloud = free_port(), free_port(), other_cloud or free_port()
    protocol = "tidegate" if other_cloud is None else "openai"
    settings = state_dir / "tidegate.yaml"
    settings.write_text(
        f"state_dir: {state_dir}\nlisten: {{port: {gateway}}}\nadmin: {{port: {admin}}}\n"
        f"targets: {{cloud: {{endpoints: ['http://127.0.0.1:{cloud}'], protocol: {protocol}}}}}\n{extra}",
        encoding="utf-8",
    )
    log = state_dir / "up.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", "up", "--settings", str(settings)],
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,
        )
    found = Installation(process, f"http://127.0.0.1:{gateway}", settings, state_dir, log, f"http://127.0.0.1:{cloud}")
    try:
        found.until_health(edge="up", cloud="up")
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise

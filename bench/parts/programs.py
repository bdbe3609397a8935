"""Programs under measurement: each on one core, from its start to its end; and the settings that ours is given."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.parts.upstream import MODEL

SECRET = "bench-secret-bench-secret"
KEY = {"authorization": f"Bearer bench.{SECRET}"}
WORDS = "The tide turns twice a day and the gate keeper writes down what has passed. "
PATH = "/v1/chat/completions"


@contextlib.contextmanager
def program(argv: list[str], port: int, core: int, log: Path, env: dict[str, str] | None = None) -> Iterator[int]:
    """Run a program on one core until the block ends."""
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *argv],
            stdout=out,
            stderr=out,
            env={**os.environ, **(env or {})},
        )
    try:
        _until_listening(port, process, log)
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


def _until_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(log.read_text(encoding="utf-8"))
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"nothing listens on {port}")


def free_ports(count: int) -> list[int]:
    socks = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in socks]
    for s in socks:
        s.close()
    return ports


def write_settings(folder: Path, port: int, upstream: int, **other: Any) -> Path:
    """Write the settings of a gateway with everything on; `other` stands in for what they say."""
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    target = {"endpoints": [f"http://127.0.0.1:{upstream}"], "protocol": "tidegate", "models": {MODEL: MODEL}}
    settings = {
        "state_dir": str(folder),
        "listen": {"port": port},
        "admin": {"port": 0},
        "targets": {"edge": target, "cloud": target},
        "auth": {"keys": [{"id": "bench", "secret_sha256": digest, "tenant": "bench"}]},
    }
    path = folder / "tidegate.yaml"
    path.write_text(json.dumps(settings | other), encoding="utf-8")
    return path

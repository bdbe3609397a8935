"""One edge runtime as a process, for all tests of a module."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

MODEL = "smollm2"
PORT_LINE = "Serving http://127.0.0.1:"


@contextmanager
def edge_process(
    model_dir: Path, *options: str, program: tuple[str, ...] = ("-m", "edge_runtime")
) -> Iterator[httpx.Client]:
    """Serve a model on a free port until the block ends."""
    command = [sys.executable, *program, "--model-dir", str(model_dir), "--model-name", MODEL]
    process = subprocess.Popen([*command, "--port", "0", *options], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if PORT_LINE in line)
        with httpx.Client(base_url="http://127.0.0.1:" + line.partition(PORT_LINE)[2].strip(), timeout=60) as client:
            deadline = time.monotonic() + 60
            while client.get("/readyz").status_code != 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield client
    finally:
        process.kill()
        process.communicate()

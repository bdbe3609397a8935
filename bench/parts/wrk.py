"""wrk, where it is installed: the same `Load` as from our own client, at a fraction of its cost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.parts.load import SHARES, Load

# wrk's own report is for people; this one is for us, in microseconds.
_SCRIPT = """
wrk.method = "POST"
local file = io.open(os.getenv("BENCH_BODY"), "rb")
wrk.body = file:read("*a")
file:close()
wrk.headers["content-type"] = "application/json"
wrk.headers["authorization"] = os.getenv("BENCH_AUTHORIZATION")
function done(summary, latency)
  local e = summary.errors
  io.write(string.format('\\n@{"requests": %d, "us": %d, "faults": %d, "shares": [%d, %d, %d]}\\n', summary.requests,
    summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(99)))
end
"""


def version() -> str | None:
    """What is installed, or `None`."""
    if shutil.which("wrk") is None:
        return None
    told = subprocess.run(["wrk", "--version"], capture_output=True, text=True, check=False)
    return " ".join((told.stdout + told.stderr).split()[:2])


def run_wrk(url: str, body: bytes, headers: dict[str, str], *, connections: int, seconds: float, core: int) -> Load:
    """Load a URL from one thread on one core.

    Raises:
        RuntimeError: An answer was not 2xx, or a connection failed.
    """
    with tempfile.TemporaryDirectory() as temporary:
        script, sent = Path(temporary) / "post.lua", Path(temporary) / "body"
        script.write_text(_SCRIPT, encoding="ascii")
        sent.write_bytes(body)
        # wrk takes whole seconds.
        options = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "30s", "-s", str(script)]
        env = {"BENCH_BODY": str(sent), "BENCH_AUTHORIZATION": headers["authorization"]}
        command = ["taskset", "-c", str(core), "wrk", *options, url]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **env})
    found = json.loads(done.stdout.rpartition("@")[2])
    if found["faults"]:
        raise RuntimeError(f"{found['faults']} faults of {found['requests']} requests at {url}")
    percentiles = {share: us / 1000 for share, us in zip(SHARES, found["shares"], strict=True)}
    return Load(found["requests"], found["us"] / 1e6, percentiles)

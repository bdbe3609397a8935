"""Where a request spends the gateway's processor time: py-spy's samples of the program under the usual load, by part.

A sample belongs to the part of the innermost frame that is in one. Shares count: each sample stops the program.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bench.gateway import USUAL, Stage, _load
from bench.parts.report import Report

SECONDS = 20
PER_SECOND = 250
# In the order of the way; each is told by the path of a file.
PARTS = {
    "traces": r"/opentelemetry/|/observability/",
    "metrics": r"/gateway/metrics/",
    "records": r"/gateway/records/",
    "key, limits, quota": r"/gateway/(access|accounts)/|/gateway/(identity|quota|principal|allowance)\.py",
    "read the request": r"/inference_protocol/|/serving/http_request\.py|/gateway/api/public_models\.py",
    "scan and measure": r"/routing_policies/signals/|/gateway/measure\.py|/gateway/state/|/gateway/detectors/",
    "decide": r"/routing_policies/",
    "the target's connection (aiohttp)": r"/aiohttp/|/yarl/|/multidict/|/gateway/egress/transport\.py",
    "permit and door": r"/gateway/egress/",
    "attempts and the answer": r"/gateway/dispatch/|/gateway/targets/|/httpx/",
    "settle": r"/gateway/settle\.py",
    "the caller's connection (uvicorn)": r"/uvicorn/|/serving/",
    "the way between them": r"/gateway/|/starlette/",
    "event loop": r"/asyncio/",
}


def parts_of(stacks: Iterable[str]) -> dict[str, float]:
    """Return the share of each part in py-spy's raw output, of the samples of the thread that serves."""
    known = {name: re.compile(pattern) for name, pattern in PARTS.items()}
    found: Counter[str] = Counter()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        if "serve_until_signal" in stack:
            found[_part_of(stack.split(";"), known)] += int(count)
    return {name: found[name] / found.total() for name in known}


def _part_of(frames: list[str], known: dict[str, re.Pattern[str]]) -> str:
    for frame in reversed(frames):
        for name, pattern in known.items():
            if pattern.search(frame):
                return name
    return "event loop"


def main() -> None:
    """Print the shares, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench/results/way-profile.json"))
    chosen = parser.parse_args()
    report = Report("way_profile")
    os.sched_setaffinity(0, {1 % (os.cpu_count() or 1)})
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        samples = Path(temporary) / "samples"
        gateway = Stage(stack, Path(temporary)).gateway()
        with gateway.awake() as process:
            record = ["py-spy", "record", "--format", "raw", "--full-filenames", "--rate", str(PER_SECOND)]
            record += ["--duration", str(SECONDS), "--output", str(samples), "--pid", str(process.pid)]
            with subprocess.Popen(record, stdout=subprocess.DEVNULL) as sampler:
                _load(gateway.port, USUAL, SECONDS + 2)
            if sampler.returncode != 0:
                raise RuntimeError(f"py-spy ended with {sampler.returncode}")
        report.raw["shares"] = shares = parts_of(samples.read_text(encoding="utf-8").splitlines())
    for name, share in shares.items():
        print(f"{share:5.0%}  {name}")
    report.write(chosen.output)


if __name__ == "__main__":
    main()

"""What the gateway adds: against a bare proxy over the same transport, same client, same run, one core.

Everything is on: keys, scanner, policy, records, traces to disk. The program under test has core 0 to itself; client
and target share core 1. Rounds alternate, medians count.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.parts.load import post, run_load
from bench.parts.report import Report
from bench.parts.upstream import MODEL

SECRET = "bench-secret-bench-secret"
WORDS = "The tide turns twice a day and the gate keeper writes down what has passed. "
ROUNDS = 5
SECONDS = 4.0
STREAM_CHUNKS = 400


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


def write_settings(folder: Path, port: int, upstream: int) -> Path:
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
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


async def measure(report: Report, ports: tuple[int, int, int], gateway_pid: int) -> None:
    upstream, bare, gateway = ports
    prompt = (WORDS * 20)[:1024]
    body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": 64}
    plain = json.dumps(body).encode()
    streamed = json.dumps({**body, "stream": True}).encode()
    headers = {"authorization": f"Bearer bench.{SECRET}"}
    path = "/v1/chat/completions"

    def request(port: int, content: bytes) -> bytes:
        return post(f"127.0.0.1:{port}", path, content, headers)

    await run_load(gateway, request(gateway, plain), connections=4, seconds=2.0)  # warm
    rates: dict[str, list[float]] = {"direct": [], "bare": [], "gateway": []}
    p50: dict[str, list[float]] = {"direct": [], "bare": [], "gateway": []}
    per_stream: dict[str, list[float]] = {"bare": [], "gateway": []}
    for _ in range(ROUNDS):
        for name, port in (("direct", upstream), ("bare", bare), ("gateway", gateway)):
            load = await run_load(port, request(port, plain), connections=16, seconds=SECONDS)
            rates[name].append(load.per_s)
            one = await run_load(port, request(port, plain), connections=1, seconds=SECONDS / 2)
            p50[name].append(one.percentile(0.5))
        for name, port in (("bare", bare), ("gateway", gateway)):
            streams = await run_load(port, request(port, streamed), connections=1, seconds=SECONDS / 2)
            per_stream[name].append(streams.percentile(0.5))
    median = {name: statistics.median(values) for name, values in rates.items()}
    added_ms = statistics.median(g - d for g, d in zip(p50["gateway"], p50["direct"], strict=True))
    chunk_us = statistics.median(per_stream["gateway"]) * 1000 / STREAM_CHUNKS
    report.raw |= {
        "requests_per_s": rates,
        "p50_ms_one_connection": p50,
        "stream_ms": per_stream,
        "resident_mb": psutil.Process(gateway_pid).memory_info().rss / 1e6,
    }
    report.at_least("gateway, everything on, 16 connections", median["gateway"], 1000, "requests/s")
    report.at_least("share of the bare proxy", median["gateway"] / median["bare"], 0.4, "")
    report.at_most("added to the median, one connection", added_ms, 1.0, "ms")
    report.at_most(f"one of {STREAM_CHUNKS} relayed events, all costs of its stream shared out", chunk_us, 50, "us")
    report.at_most("gateway resident memory", report.raw["resident_mb"], 150, "MB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=Path("bench/results/gateway.json"))
    output = parser.parse_args().output
    report = Report("gateway")
    upstream, bare, gateway = free_ports(3)
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        settings = write_settings(folder, gateway, upstream)
        os.sched_setaffinity(0, {1 % (os.cpu_count() or 1)})

        def start(name: str, argv: list[str], port: int, core: int) -> int:
            return stack.enter_context(program([sys.executable, *argv], port, core, folder / f"{name}.log"))

        start("upstream", ["-m", "bench.parts.upstream", str(upstream), str(STREAM_CHUNKS)], upstream, 1)
        start("bare", ["-m", "bench.parts.bare_proxy", str(bare), str(upstream)], bare, 0)
        pid = start("gateway", ["-m", "gateway.cli", "serve", "--settings", str(settings)], gateway, 0)
        time.sleep(1.0)  # the first polls
        asyncio.run(measure(report, (upstream, bare, gateway), pid))
    report.write(output)


if __name__ == "__main__":
    main()

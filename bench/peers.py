"""The gateway beside LiteLLM's proxy and Portkey's gateway: the same upstream, client, prompt and core, in one run.

Each is one process on core 0 with what it does by default; ours has keys, scanner, policy, records and traces on.
`--cache` is where the peers are installed, once. Rounds alternate, medians count.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from bench.parts.load import post, run_load
from bench.parts.peers import LITELLM, PORTKEY, Peer, litellm, portkey
from bench.parts.programs import KEY, PATH, WORDS, free_ports, program, write_settings
from bench.parts.report import Report
from bench.parts.upstream import MODEL

ROUNDS = 3
SECONDS = 4.0
OURS = "Tidegate"


async def measure(report: Report, upstream: int, asked: dict[str, tuple[int, dict[str, str]]]) -> dict[str, float]:
    """Load each in turn; return the median rate of each."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": (WORDS * 20)[:1024]}], "max_tokens": 64}
    content = json.dumps(body).encode()

    def request(port: int, headers: dict[str, str]) -> bytes:
        return post(f"127.0.0.1:{port}", PATH, content, headers)

    rates: dict[str, list[float]] = {name: [] for name in asked}
    added: dict[str, list[float]] = {name: [] for name in asked}
    for port, headers in asked.values():
        await run_load(port, request(port, headers), connections=4, seconds=2.0)  # warm
    for _ in range(ROUNDS):
        direct = await run_load(upstream, request(upstream, {}), connections=1, seconds=SECONDS / 2)
        for name, (port, headers) in asked.items():
            load = await run_load(port, request(port, headers), connections=16, seconds=SECONDS)
            rates[name].append(load.per_s)
            one = await run_load(port, request(port, headers), connections=1, seconds=SECONDS / 2)
            added[name].append(one.percentile(0.5) - direct.percentile(0.5))
    report.raw |= {"requests_per_s": rates, "added_p50_ms": added}
    return {name: statistics.median(values) for name, values in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=Path("bench/results/peers.json"))
    parser.add_argument("--cache", type=Path, default=Path("var/bench"))
    chosen = parser.parse_args()
    cache: Path = chosen.cache.absolute()
    cache.mkdir(parents=True, exist_ok=True)
    report = Report("peers")
    report.raw["versions"] = {"LiteLLM": LITELLM, "Portkey": PORTKEY}
    upstream, ours, of_litellm, of_portkey = free_ports(4)
    peers = [litellm(cache, of_litellm, upstream), portkey(cache, of_portkey, upstream)]
    ports = {"LiteLLM": of_litellm, "Portkey": of_portkey}
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        settings = write_settings(folder, ours, upstream)
        os.sched_setaffinity(0, {1 % (os.cpu_count() or 1)})

        def start(name: str, command: list[str], port: int, core: int, env: dict[str, str] | None = None) -> int:
            return stack.enter_context(program(command, port, core, folder / f"{name}.log", env))

        python = sys.executable
        start("upstream", [python, "-m", "bench.parts.upstream", str(upstream), "1"], upstream, 1)
        pids = {OURS: start(OURS, [python, "-m", "gateway.cli", "serve", "--settings", str(settings)], ours, 0)}
        for peer in peers:
            pids[peer.name] = start(peer.name, peer.command, ports[peer.name], 0, peer.env)
        time.sleep(1.0)  # the first polls
        median = asyncio.run(measure(report, upstream, _asked(ours, peers, ports)))
        report.raw["resident_mb"] = {name: _resident_mb(pid) for name, pid in pids.items()}
    for name, ratio in (("LiteLLM", 20.0), ("Portkey", 1.9)):
        report.at_least(f"requests/s, of {name}'s", median[OURS] / median[name], ratio, "x")
    report.write(chosen.output)


def _asked(ours: int, peers: list[Peer], ports: dict[str, int]) -> dict[str, tuple[int, dict[str, str]]]:
    asked = {OURS: (ours, KEY)}
    return asked | {peer.name: (ports[peer.name], peer.headers) for peer in peers}


def _resident_mb(pid: int) -> float:
    process = psutil.Process(pid)
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True))) / 1e6


if __name__ == "__main__":
    main()

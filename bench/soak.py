"""Many streams, some hung up on and some cut: what is left of them; and what is done under ten times too much load.

A fifth of the callers hang up in the middle and a twentieth of the streams are cut by the target. Afterwards the
gateway must stand as it stood after the first thousand: memory, open files, requests in flight.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from bench.parts.load import post, run_load
from bench.parts.programs import KEY, PATH, WORDS, free_ports, program, write_settings
from bench.parts.report import Report
from bench.parts.upstream import MODEL

CHUNKS = 20
CUT_EVERY = 19  # shares no factor with those that hang up, so that most that are cut are being read
ABORT_EVERY = 5
ABORT_AFTER_BYTES = 1500
CONNECTIONS = 32
SETTLED = 1000
LOOKS = 20  # at memory, while it goes on


class Soak:
    """Streams from many connections, counted by how they ended."""

    def __init__(self, port: int, request: bytes, total: int, pid: int) -> None:
        self._port = port
        self._request = request
        self._left = total
        self._pid = pid
        self._each = max(1, total // LOOKS)
        self.ends: Counter[str] = Counter()
        self.resident_mb: list[float] = []

    async def run(self) -> None:
        await asyncio.gather(*(self._connection() for _ in range(CONNECTIONS)))

    async def _connection(self) -> None:
        while self._left > 0:
            self._left -= 1
            if self._left % self._each == 0:
                self.resident_mb.append(footprint(self._pid)["resident_mb"])
            abort = self._left % ABORT_EVERY == 0
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                writer.write(self._request)
                self.ends[await _end(reader, abort)] += 1
            finally:
                if abort:
                    writer.transport.abort()
                writer.close()


async def _end(reader: asyncio.StreamReader, abort: bool) -> str:
    seen = b""
    while piece := await reader.read(1 << 16):
        seen += piece
        if abort and len(seen) > ABORT_AFTER_BYTES:
            return "hung up"
        if seen.endswith(b"0\r\n\r\n"):
            break
    if b"data: [DONE]" in seen:
        return "whole"
    return "cut, and said so" if b'"error"' in seen else "torn"


def footprint(pid: int) -> dict[str, float]:
    process = psutil.Process(pid)
    return {"resident_mb": process.memory_info().rss / 1e6, "open_files": process.num_fds()}


def settled(pid: int, files: float) -> dict[str, float]:
    """Wait until connections that were hung up on, or that nobody needs any more, are closed, or a while."""
    end = time.monotonic() + 40
    while footprint(pid)["open_files"] > files and time.monotonic() < end:
        time.sleep(0.2)
    return footprint(pid)


async def measure(report: Report, port: int, pid: int, total: int) -> None:
    prompt = (WORDS * 20)[:1024]
    body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "stream": True, "max_tokens": 64}
    headers = KEY
    stream = post(f"127.0.0.1:{port}", PATH, json.dumps(body).encode(), headers)
    at_start = footprint(pid)["open_files"]
    await Soak(port, stream, SETTLED, pid).run()
    before = await asyncio.to_thread(settled, pid, at_start)
    started = time.monotonic()
    soak = Soak(port, stream, total, pid)
    await soak.run()
    seconds = time.monotonic() - started
    after = await asyncio.to_thread(settled, pid, before["open_files"])
    report.raw |= {"streams": total, "seconds": seconds, "ends": soak.ends, "before": before, "after": after}
    report.raw["resident_mb_on_the_way"] = soak.resident_mb
    grown = after["resident_mb"] / before["resident_mb"] - 1
    report.at_most(f"memory grown over {total} streams", grown, 0.05, "")
    report.at_most("open files more than before", after["open_files"] - before["open_files"], 0, "")
    report.at_most("streams that ended without a word", soak.ends["torn"], 0, "")
    await overload(report, port, headers, {**body, "stream": False})


async def overload(report: Report, port: int, headers: dict[str, str], body: dict[str, object]) -> None:
    """Goodput at ten times the connections of the peak; those who are turned away are no part of it."""
    request = post(f"127.0.0.1:{port}", PATH, json.dumps(body).encode(), headers)
    peak = await run_load(port, request, connections=16, seconds=6.0)
    over = await run_load(port, request, connections=160, seconds=6.0)
    report.raw["goodput_per_s"] = {"peak": peak.per_s, "ten_times": over.per_s}
    report.at_least("goodput under ten times the load", over.per_s / peak.per_s, 0.8, "of the peak")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=Path("bench/results/soak.json"))
    parser.add_argument("--streams", type=int, default=100_000)
    chosen = parser.parse_args()
    report = Report("soak")
    upstream, gateway = free_ports(2)
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        settings = write_settings(folder, gateway, upstream)
        os.sched_setaffinity(0, {1 % (os.cpu_count() or 1)})
        serve = [sys.executable, "-m", "bench.parts.upstream", str(upstream), str(CHUNKS), str(CUT_EVERY)]
        stack.enter_context(program(serve, upstream, 1, folder / "upstream.log"))
        run = [sys.executable, "-m", "gateway.cli", "serve", "--settings", str(settings)]
        pid = stack.enter_context(program(run, gateway, 0, folder / "gateway.log"))
        time.sleep(1.0)  # the first polls
        asyncio.run(measure(report, gateway, pid, chosen.streams))
    report.write(chosen.output)


if __name__ == "__main__":
    main()

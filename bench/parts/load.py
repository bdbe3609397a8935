"""A client that costs little: prepared bytes over kept-alive sockets, answers counted by their length."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """What a round of load came to."""

    requests: int
    seconds: float
    latencies_ms: list[float]

    @property
    def per_s(self) -> float:
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def post(host: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    """The bytes of one request."""
    lines = [f"POST {path} HTTP/1.1", f"host: {host}", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


async def run_load(port: int, request: bytes, *, connections: int, seconds: float) -> Load:
    """Send `request` again and again over each connection until the time is up."""
    end = time.perf_counter() + seconds
    latencies: list[float] = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while time.perf_counter() < end:
                started = time.perf_counter()
                writer.write(request)
                await _answer(reader)
                latencies.append((time.perf_counter() - started) * 1000)
        finally:
            writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return Load(len(latencies), time.perf_counter() - started, latencies)


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"not 200: {head[:200]!r}")
    lower = head.lower()
    at = lower.find(b"content-length: ")
    if at >= 0:
        return await reader.readexactly(int(lower[at + 16 : lower.index(b"\r", at)]))
    body = b""
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        chunk = await reader.readexactly(size + 2)
        if size == 0:
            return body
        body += chunk[:-2]

"""A client that costs little: prepared bytes over kept-alive sockets, answers counted by their length."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Load:
    """What a round of load came to.

    Attributes:
        ms: Of a whole answer, by the share of answers that took no longer: those of `SHARES`.
        first_ms: Median to the first piece of an answer's body, where that was looked at.
    """

    requests: int
    seconds: float
    ms: Mapping[float, float]
    first_ms: float | None = None

    @property
    def per_s(self) -> float:
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        return self.ms[share]


def post(host: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    """The bytes of one request."""
    lines = [f"POST {path} HTTP/1.1", f"host: {host}", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


async def run_load(port: int, request: bytes, *, connections: int, seconds: float) -> Load:
    """Send `request` again and again over each connection until the time is up."""
    end = time.perf_counter() + seconds
    whole: list[float] = []
    first: list[float] = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while time.perf_counter() < end:
                started = time.perf_counter()
                writer.write(request)
                began = await _answer(reader)
                whole.append((time.perf_counter() - started) * 1000)
                first.append((began - started) * 1000)
        finally:
            writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    seconds = time.perf_counter() - started
    whole.sort()
    ms = {share: whole[min(len(whole) - 1, int(share * len(whole)))] for share in SHARES}
    return Load(len(whole), seconds, ms, statistics.median(first))


async def _answer(reader: asyncio.StreamReader) -> float:
    """Read one answer and return when its body began."""
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"not 200: {head[:200]!r}")
    lower = head.lower()
    at = lower.find(b"content-length: ")
    if at >= 0:
        await reader.readexactly(int(lower[at + 16 : lower.index(b"\r", at)]))
        return time.perf_counter()
    began: float | None = None
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        began = began or time.perf_counter()
        await reader.readexactly(size + 2)
        if size == 0:
            return began

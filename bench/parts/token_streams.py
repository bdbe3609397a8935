"""Streamed completions of prompts given as token ids: when each piece came, over TCP or a Unix socket."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Place = int | Path
"""A port of 127.0.0.1, or a Unix socket."""


@dataclass(frozen=True)
class Stream:
    """One answer.

    Attributes:
        began_s: When the request was written, on the monotonic clock.
        pieces_s: When each event with text came, on the same.
        tokens: As the server counts them.
    """

    began_s: float
    pieces_s: list[float]
    tokens: int

    @property
    def first_ms(self) -> float:
        """Time to the first piece."""
        return (self.pieces_s[0] - self.began_s) * 1000

    @property
    def gaps_ms(self) -> list[float]:
        """Between one piece and the next."""
        return [(b - a) * 1000 for a, b in zip(self.pieces_s, self.pieces_s[1:], strict=False)]

    @property
    def decode_per_s(self) -> float:
        """Tokens a second after the first one."""
        return (self.tokens - 1) / (self.pieces_s[-1] - self.pieces_s[0])


@dataclass(frozen=True)
class Burst:
    """Answers asked for at the same moment."""

    streams: list[Stream]

    @property
    def tokens_per_s(self) -> float:
        """All tokens, from the first request to the last piece: prompts are read within."""
        began = min(stream.began_s for stream in self.streams)
        ended = max(stream.pieces_s[-1] for stream in self.streams)
        return sum(stream.tokens for stream in self.streams) / (ended - began)

    def gap_ms(self, share: float) -> float:
        """A percentile of all gaps."""
        ordered = sorted(gap for stream in self.streams for gap in stream.gaps_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def burst(
    place: Place, model: str, prompts: Sequence[Sequence[int]], *, tokens: int, ending: Sequence[int]
) -> Burst:
    """Ask for one answer of exactly `tokens` to each prompt, all at once; `ending` are the ids that would end one."""
    bias = {str(token): -100 for token in ending}
    bodies = [
        {
            "model": model,
            "prompt": list(prompt),
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "logit_bias": bias,
        }
        for prompt in prompts
    ]
    return Burst(list(await asyncio.gather(*(_stream(place, body) for body in bodies))))


async def _stream(place: Place, body: dict[str, Any]) -> Stream:
    if isinstance(place, Path):
        reader, writer = await asyncio.open_unix_connection(str(place))
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", place)
    content = json.dumps(body).encode()
    head = "POST /v1/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nconnection: close\r\n"
    writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
    began = time.monotonic()
    try:
        status = await reader.readuntil(b"\r\n\r\n")
        if not status.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{status[:200]!r} {await reader.read(500)!r}")
        return await _read(reader, began)
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader, began: float) -> Stream:
    pieces: list[float] = []
    tokens = 0
    # Lines of the chunked framing lie between the events; none of them looks like one.
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        now = time.monotonic()
        event = json.loads(line[6:])
        if event.get("usage"):
            tokens = event["usage"]["completion_tokens"]
        if any(choice.get("text") for choice in event.get("choices", ())):
            pieces.append(now)
    if not pieces or not tokens:
        raise RuntimeError("the answer came without text or without usage")
    return Stream(began, pieces, tokens)

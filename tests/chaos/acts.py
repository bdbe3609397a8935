"""What a target can be made to do with one request over a real socket, honest or not."""

from __future__ import annotations

import asyncio
import gzip
import json

from tests.support.scripted_runtime import Answer, Received, event


def raw(*pieces: bytes, then_close: bool = True) -> Answer:
    """Send bytes as they are."""

    async def act(request: Received) -> None:
        for piece in pieces:
            await request.send(piece)
        if then_close:
            request.writer.close()
        else:
            await asyncio.Event().wait()

    return act


def head(status: int = 200, kind: str = "application/json", *more: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} X", f"content-type: {kind}", *more, "", ""]).encode()


def document(body: bytes, *more: str, status: int = 200, kind: str = "application/json") -> Answer:
    """Answer with one body of honest length."""
    return raw(head(status, kind, f"content-length: {len(body)}", *more) + body)


def stream(*chunks: bytes, cut: bool = False, stall: bool = False, pause_s: float = 0.0) -> Answer:
    """Send events, and end well, in the middle, or never; after the first one pause, so that it arrives alone."""

    async def act(request: Received) -> None:
        await request.head()
        for number, chunk in enumerate(chunks):
            await request.chunk(chunk)
            await asyncio.sleep(0.0 if number else pause_s)
        if cut:
            request.cut()
        elif stall:
            await asyncio.Event().wait()
        else:
            await request.end()

    return act


async def broken_chunks_after_content(request: Received) -> None:
    """Say a word, then send what is no chunk, and keep the connection open."""
    await request.head()
    await request.chunk(event(content="Once"))
    await asyncio.sleep(0.3)
    await request.send(b"zz\r\nxx\r\n")
    await asyncio.Event().wait()


async def never(_: Received) -> None:
    await asyncio.Event().wait()


async def cuts(request: Received) -> None:
    request.cut()


async def pours_without_a_newline(request: Received) -> None:
    await request.head()
    while True:
        await request.chunk(b"data: " + b"x" * 65536)


async def sends_heads_without_end(request: Received) -> None:
    while True:
        await request.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        await asyncio.sleep(0)


async def only_pings_after_content(request: Received) -> None:
    await request.head()
    await request.chunk(event(content="Once"))
    while True:
        await request.chunk(b": ping\n\n")
        await asyncio.sleep(0.02)


async def trickles(request: Received) -> None:
    await request.head()
    await request.chunk(event(content="Once"))
    for byte in event(content=" upon a time" * 1000):
        await request.chunk(bytes([byte]))
        await asyncio.sleep(0.02)


def error_event(code: str = "server_error", message: str = "gone") -> bytes:
    return b"data: " + json.dumps({"error": {"message": message, "code": code}}).encode() + b"\n\n"


def zipped(body: bytes, claimed: int) -> Answer:
    packed = gzip.compress(body)
    return raw(
        head(200, "application/json", "content-encoding: gzip", f"content-length: {len(packed) + claimed}") + packed
    )

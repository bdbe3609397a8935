"""Requests whose every byte is the test's, which no client library would send."""

from __future__ import annotations

import asyncio


async def asked(url: str, *fields: str, first: str = "GET /livez HTTP/1.1", body: bytes = b"") -> str:
    """Send one request, and return all that comes back until the connection ends."""
    head = "\r\n".join([first, *fields, "connection: close", "", ""]).encode("latin-1")
    return (await exchanged(url, head + body)).decode("latin-1")


async def exchanged(url: str, data: bytes, *, end: bool = False) -> bytes:
    """Send bytes, and the end of them where that is said; return all that comes back until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    try:
        writer.write(data)
        if end:
            writer.write_eof()
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


def status(answer: str) -> int:
    return int(answer.split(" ", 2)[1])

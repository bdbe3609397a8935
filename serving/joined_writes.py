"""A transport that sends the head of an answer together with what follows it: one system call instead of two."""

from __future__ import annotations

import asyncio
from typing import Any

_HEAD = b"HTTP/1.1 "
_END_OF_HEAD = b"\r\n\r\n"


class JoinedWrites:
    """Stands in front of a connection's transport. What it holds goes out with the next write, or at the next turn."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Wrap a transport; whatever is not a write is its own."""
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        """Send data, and before it the head that waits for it."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD) and data.endswith(_END_OF_HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection once all is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            data, self._head = self._head, b""
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

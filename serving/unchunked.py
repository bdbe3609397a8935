"""Answers for clients of HTTP/1.0, which know no chunks: uvicorn sends them some all the same.

RFC 9112 §6.1: nothing may be sent in chunks to one who asked by HTTP/1.0. Such an answer ends with its connection.
"""

from __future__ import annotations

from typing import Any

_HEAD = b"HTTP/1.1 "
_CHUNKED = b"transfer-encoding: chunked\r\n"
_LAST_CHUNK = b"0\r\n"


class Unchunked:
    """Stands in front of the transport of one answer, and takes the chunks off that its writes come in."""

    def __init__(self, transport: Any) -> None:
        """Wrap a transport; whatever is not a write is its own."""
        self._transport = transport
        self._is_chunked = False

    def write(self, data: bytes) -> None:
        """Send a head without its word of chunks, or what stands in whole chunks."""
        if self._is_chunked:
            while data and not data.startswith(_LAST_CHUNK):
                size, _, rest = data.partition(b"\r\n")
                end = int(size, 16)
                self._transport.write(rest[:end])
                data = rest[end + 2 :]
            return
        self._is_chunked = data.startswith(_HEAD) and _CHUNKED in data
        self._transport.write(data.replace(_CHUNKED, b"", 1) if self._is_chunked else data)

    def __getattr__(self, name: str) -> Any:
        """Whatever else a transport has."""
        return getattr(self._transport, name)

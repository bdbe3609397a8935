"""The head of an answer and what follows it are one write, and nothing that is held is ever lost."""

from __future__ import annotations

import asyncio
from typing import Any

from serving.joined_writes import JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Written:
    """Notes what is written, as a transport."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str) -> str:
        return name


def joined() -> tuple[JoinedWrites, Any]:
    written: Any = Written()
    return JoinedWrites(written, asyncio.get_running_loop()), written


async def test_a_head_goes_out_with_its_body() -> None:
    transport, written = joined()
    transport.write(HEAD)
    transport.write(b"ok")
    transport.write(b"more")
    assert written.pieces == [HEAD + b"ok", b"more"]


async def test_a_head_that_nothing_follows_goes_out_by_itself() -> None:
    transport, written = joined()
    transport.write(HEAD)
    assert written.pieces == []
    await asyncio.sleep(0)
    assert written.pieces == [HEAD]


async def test_what_is_held_goes_out_before_the_connection_is_closed() -> None:
    transport, written = joined()
    transport.write(HEAD)
    transport.close()
    assert (written.pieces, written.closed) == ([HEAD], True)
    await asyncio.sleep(0)
    assert written.pieces == [HEAD]


async def test_all_else_is_the_transports_own() -> None:
    transport, _ = joined()
    assert transport.get_extra_info("peername") == "peername"

"""What comes before a body is bounded, and an offered upgrade is passed over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from serving import http_protocol
from serving.http_protocol import MAX_HEAD_BYTES, BoundedHttpProtocol


async def echoes(scope: Any, receive: Any, send: Any) -> None:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def streams(scope: Any, receive: Any, send: Any) -> None:
    """An answer without a length, in pieces of which one looks like the end of chunks."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for piece in (b"one", b"", b"0\r\n\r\n", b"two"):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"end"})


@asynccontextmanager
async def served(app: Any = echoes) -> AsyncIterator[int]:
    config = uvicorn.Config(app, http=BoundedHttpProtocol, ws="none", lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(
        lambda: BoundedHttpProtocol(config=config, server_state=server.server_state, app_state={}), "127.0.0.1", 0
    )
    yield listening.sockets[0].getsockname()[1]
    listening.close()


async def answer_to(port: int, *pieces: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(10):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
    writer.close()
    return int(head.split(b" ")[1]), body


def post(body: bytes, *fields: bytes) -> bytes:
    lines = [b"POST /x HTTP/1.1", b"host: t", b"content-length: %d" % len(body), *fields]
    return b"\r\n".join([*lines, b"", b""]) + body


async def test_an_offered_upgrade_is_passed_over_and_the_body_arrives() -> None:
    offer = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")
    async with served() as port:
        assert await answer_to(port, post(b'{"a": 1}', *offer)) == (200, b'{"a": 1}')
        whole = post(b"x" * 3000, *offer)
        assert await answer_to(port, whole[:200], whole[200:1000], whole[1000:]) == (200, b"x" * 3000)


async def test_a_head_that_is_too_long_is_refused_and_the_connection_closed() -> None:
    async with served() as port:
        fits = post(b"ok", b"x-long: " + b"a" * (MAX_HEAD_BYTES // 2))
        assert (await answer_to(port, fits))[0] == 200
        status, body = await answer_to(port, b"POST /x HTTP/1.1\r\nx-long: ", b"a" * (4 * MAX_HEAD_BYTES))
        assert (status, json.loads(body)["error"]["code"]) == (431, "head_too_large")


async def test_what_is_no_http_is_answered_in_the_shape_of_every_other_error() -> None:
    async with served() as port:
        status, body = await answer_to(port, b"\x16\x03\x01 nonsense\r\n\r\n")
        assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_request")


async def test_a_head_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 0.2)
    async with served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /x HTTP/1.1\r\nhost:")
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_a_connection_serves_one_request_after_another() -> None:
    async with served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(5):
            for body in (b"one", b"two", b"three"):
                writer.write(post(body))
                await reader.readuntil(b"\r\n\r\n")
                assert await reader.readexactly(len(body)) == body
        writer.close()


@pytest.mark.parametrize("field", [b"x-data-class: restricted", b"x-anything: 1"])
async def test_a_field_after_the_body_is_refused_before_anybody_has_seen_the_request(field: bytes) -> None:
    head = b"POST /x HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"5\r\nhello\r\n0\r\n"
    async with served() as port:
        for pieces in ((head + body + field + b"\r\n\r\n",), (head, body, field, b"\r\n\r\n")):
            status, answer = await answer_to(port, *pieces)
            assert status == 400
            assert b"after the body" in answer
        assert (await answer_to(port, head + body + b"\r\n"))[0] == 200


async def test_a_client_of_http_1_0_gets_its_answer_without_chunks_and_its_end_by_the_connection() -> None:
    async with served(streams) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /x HTTP/1.0\r\nhost: t\r\n\r\n")
        async with asyncio.timeout(5):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert b"transfer-encoding" not in head.lower()
        assert body == b"one0\r\n\r\ntwoend"
        writer.close()


async def test_a_client_of_http_1_0_gets_an_answer_with_a_length_as_it_is() -> None:
    async with served() as port:
        status, body = await answer_to(port, post(b"hello").replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert (status, body) == (200, b"hello")

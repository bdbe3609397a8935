"""Names whose addresses change, and proxies: only where settings name one."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gateway.egress.endpoint import Endpoint
from gateway.egress.session import Reach
from gateway.egress.transport import AiohttpTransport
from tests.support.running_gateway import free_port


class Names(AbstractResolver):
    """Every name has this one address."""

    def __init__(self, address: str) -> None:
        self.address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if not self.address:
            raise OSError("no such name")
        return [ResolveResult(hostname=host, host=self.address, port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        pass


async def says_where(address: str, port: int) -> asyncio.Server:
    """A server that answers each request with its own address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(address)}\r\n\r\n"
                writer.write(head.encode() + address.encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    return await asyncio.start_server(serve, address, port)


async def asked(sender: AiohttpTransport, url: str) -> str:
    response = await sender.handle_async_request(httpx.Request("GET", url))
    try:
        return (await response.aread()).decode()
    finally:
        await response.aclose()


async def test_a_name_that_moves_is_followed_and_kept_connections_with_it() -> None:
    port = free_port()
    servers = [await says_where(address, port) for address in ("127.0.0.1", "127.0.0.2")]
    names = Names("127.0.0.1")
    url = f"http://models.internal:{port}/x"
    reach = Reach(Endpoint.parse(f"http://models.internal:{port}"), 2.0, 4, resolver=names)
    sender = AiohttpTransport(reach)
    assert await asked(sender, url) == "127.0.0.1"
    assert not await sender.renew(), "the first look only learns"
    names.address = "127.0.0.2"
    assert await asked(sender, url) == "127.0.0.1", "a connection that is kept knows nothing of it"
    assert await sender.renew()
    assert await asked(sender, url) == "127.0.0.2"
    names.address = ""
    assert not await sender.renew(), "a name that cannot be looked up moves nothing"
    assert await asked(sender, url) == "127.0.0.2"
    await sender.aclose()
    for server in servers:
        server.close()


async def test_a_name_that_nobody_knows_is_a_connection_that_was_not_made() -> None:
    sender = AiohttpTransport(Reach(Endpoint.parse("http://models.internal:1"), 2.0, 4, resolver=Names("")))
    with pytest.raises(httpx.ConnectError):
        await asked(sender, "http://models.internal:1/x")
    await sender.aclose()


async def test_a_proxy_is_used_where_settings_name_one() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        writer.close()

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    reach = Reach(Endpoint.parse("http://models.internal:8000"), 2.0, 4, proxy=URL(address))
    sender = AiohttpTransport(reach)
    assert await asked(sender, "http://models.internal:8000/x") == "ok"
    assert heads[0].startswith(b"GET http://models.internal:8000/x HTTP/1.1\r\n")
    await sender.aclose()
    proxy.close()

"""TLS to a target, over real sockets: whom it trusts, what it shows, and files that change under it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import trustme

from gateway.egress.endpoint import Endpoint
from gateway.egress.session import Reach
from gateway.egress.tls import TlsSource
from gateway.egress.transport import AiohttpTransport
from gateway.reach_settings import TlsSettings


@dataclass
class Server:
    """Answers `ok` over TLS, and says who asked."""

    context: ssl.SSLContext
    port: int = 0
    shown: list[object] = field(default_factory=list)
    connections: int = 0
    may_finish: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.may_finish.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.shown.append(writer.get_extra_info("peercert"))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no")
                await writer.drain()
                await self.may_finish.wait()
                writer.write(b"k")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(authority: trustme.CA, *names: str, clients: trustme.CA | None = None) -> AsyncIterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    server = Server(context)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        listening.close_clients() if hasattr(listening, "close_clients") else None
        await listening.wait_closed()


def written(authority: trustme.CA, path: Path) -> Path:
    authority.cert_pem.write_to_path(path)
    return path


def transport(server: Server, settings: TlsSettings, host: str = "127.0.0.1") -> AiohttpTransport:
    endpoint = Endpoint.parse(f"https://{host}:{server.port}")
    reach = Reach(endpoint, connect_timeout_s=2.0, max_connections=4, server_name=settings.server_name)
    return AiohttpTransport(reach, TlsSource(settings))


async def asked(sender: AiohttpTransport, server: Server, host: str = "127.0.0.1") -> bytes:
    response = await sender.handle_async_request(httpx.Request("GET", f"https://{host}:{server.port}/x"))
    try:
        return await response.aread()
    finally:
        await response.aclose()


async def test_an_authority_of_the_targets_own_is_trusted_and_no_other(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    async with serving(authority) as server:
        sender = transport(server, TlsSettings(ca_file=written(authority, tmp_path / "ca.pem")))
        assert await asked(sender, server) == b"ok"
        await sender.aclose()
        for settings in (TlsSettings(), TlsSettings(ca_file=written(other, tmp_path / "other.pem"))):
            stranger = transport(server, settings)
            with pytest.raises(httpx.ConnectError, match="certificate refused"):
                await asked(stranger, server)
            await stranger.aclose()
        assert len(server.shown) == 1, "not a byte of a request went to who could not be trusted"


async def test_a_certificate_for_another_host_is_refused_unless_that_name_is_asked_for(tmp_path: Path) -> None:
    authority = trustme.CA()
    ca = written(authority, tmp_path / "ca.pem")
    async with serving(authority, "models.internal") as server:
        sender = transport(server, TlsSettings(ca_file=ca))
        with pytest.raises(httpx.ConnectError, match="certificate refused"):
            await asked(sender, server)
        await sender.aclose()
        named = transport(server, TlsSettings(ca_file=ca, server_name="models.internal"))
        assert await asked(named, server) == b"ok"
        await named.aclose()


async def test_a_target_that_wants_to_know_who_asks_is_shown_a_certificate(tmp_path: Path) -> None:
    authority, clients = trustme.CA(), trustme.CA()
    ca = written(authority, tmp_path / "ca.pem")
    own = clients.issue_cert("gateway@box.internal")
    own.private_key_pem.write_to_path(tmp_path / "key.pem")
    for pem in own.cert_chain_pems:
        pem.write_to_path(tmp_path / "cert.pem", append=True)
    async with serving(authority, clients=clients) as server:
        known = TlsSettings(ca_file=ca, certificate_file=tmp_path / "cert.pem", key_file=tmp_path / "key.pem")
        sender = transport(server, known)
        assert await asked(sender, server) == b"ok"
        await sender.aclose()
        assert server.shown[-1]
        nobody = transport(server, TlsSettings(ca_file=ca))
        with pytest.raises(httpx.TransportError):
            await asked(nobody, server)
        await nobody.aclose()


async def test_certificates_that_are_replaced_are_taken_up_without_a_restart(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    path = written(old, tmp_path / "ca.pem")
    async with serving(new) as server:
        settings = TlsSettings(ca_file=path)
        sender = transport(server, settings)
        with pytest.raises(httpx.ConnectError):
            await asked(sender, server)
        assert not await sender.renew(), "nothing has changed"
        written(new, path)
        assert await sender.renew()
        assert await asked(sender, server) == b"ok"
        path.write_text("no certificate at all", encoding="utf-8")
        with pytest.raises(ValueError, match=r"ca\.pem"):
            await sender.renew()
        assert await asked(sender, server) == b"ok", "what worked goes on"
        await sender.aclose()


async def test_a_request_in_flight_ends_on_the_connection_it_began_on(tmp_path: Path) -> None:
    authority = trustme.CA()
    path = written(authority, tmp_path / "ca.pem")
    async with serving(authority) as server:
        sender = transport(server, TlsSettings(ca_file=path))
        request = httpx.Request("GET", f"https://127.0.0.1:{server.port}/x")
        server.may_finish.clear()
        before = await sender.handle_async_request(request)
        written(authority, path)
        assert await sender.renew()
        server.may_finish.set()
        assert await before.aread() == b"ok"
        await before.aclose()
        assert await asked(sender, server) == b"ok"
        assert server.connections == 2
        await sender.aclose()

"""One generation of connections to an endpoint: made under one set of certificates and one answer of the DNS.

When either changes, new requests begin on a new generation. The old one ends with the last request that runs on it, so
that nothing in flight notices.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from gateway.egress.endpoint import Endpoint

_NO_DEFAULT_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_DNS_TTL_S = 10


@dataclass(frozen=True, slots=True)
class Reach:
    """How connections to an endpoint are made.

    Attributes:
        connect_timeout_s: For name, connection and handshake together.
        server_name: What the certificate must be for, where that is not the endpoint's host.
        resolver: Looks names up; the system's where absent.
    """

    endpoint: Endpoint
    connect_timeout_s: float
    max_connections: int
    proxy: URL | None = None
    server_name: str | None = None
    resolver: AbstractResolver | None = None


class Generation:
    """A session with its connections, and how many requests run on it."""

    def __init__(self, reach: Reach, tls: ssl.SSLContext | None) -> None:
        """Open no connection yet; this must run in the event loop that they will belong to."""
        self._running = 0
        self._is_retired = False
        self._connector = _connector(reach, tls)
        self.session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            raise_for_status=False,
            skip_auto_headers=_NO_DEFAULT_HEADERS,
            timeout=aiohttp.ClientTimeout(total=None, connect=reach.connect_timeout_s),
        )

    def enter(self) -> None:
        """Count a request in."""
        self._running += 1

    async def leave(self) -> None:
        """Count a request out; the last one of a retired generation closes it."""
        self._running -= 1
        if self._is_retired and not self._running:
            await self.session.close()

    async def retire(self) -> None:
        """Take no more requests."""
        self._is_retired = True
        if not self._running:
            await self.session.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.session.close()

    def is_new_connection(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether the request that this task makes went over a connection of its own; said once."""
        made_by = self._connector.made_by
        if task in made_by:
            made_by.discard(task)
            return True
        return False


class _Handler(ResponseHandler):
    """One connection, whose failure reaches whoever waits for more of a body.

    aiohttp's parser lets go of the body at a chunk that it cannot read, before the connection tells it of its end: who
    waits for the next bytes would wait until a timeout, though all is over.
    """

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Fail the body, where one is being read, with the connection."""
        super().set_exception(exc, *cause)
        body = self._payload
        if body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError("the body could not be read on"), exc)


class _MadeBy:
    """Notes which task had to make a connection. All others met one that had served before."""

    made_by: set[asyncio.Task[Any] | None]

    async def _create_connection(self, *args: Any) -> Any:
        made = await super()._create_connection(*args)  # type: ignore[misc]  # it is aiohttp's own
        self.made_by.add(asyncio.current_task())
        return made


class _Tcp(_MadeBy, aiohttp.TCPConnector):
    """Connections to a host."""


class _Unix(_MadeBy, aiohttp.UnixConnector):
    """Connections to a socket of this machine."""


def _connector(reach: Reach, tls: ssl.SSLContext | None) -> _Tcp | _Unix:
    connector: _Tcp | _Unix
    if reach.endpoint.socket_path is not None:
        connector = _Unix(reach.endpoint.socket_path, limit=reach.max_connections)
    else:
        secure: ssl.SSLContext | bool = tls if tls is not None else True
        connector = _Tcp(limit=reach.max_connections, ssl=secure, ttl_dns_cache=_DNS_TTL_S, resolver=reach.resolver)
    handler: type[ResponseHandler] = _Handler
    connector._factory = functools.partial(handler, loop=asyncio.get_running_loop())
    connector.made_by = set()
    return connector

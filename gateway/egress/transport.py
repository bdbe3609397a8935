"""httpx's transport interface over aiohttp's connections: the seam of the one and about the speed of the other.

The session carries nothing of its own: no cookies, no environment, no default headers, no redirects, no decompression.
Failures are told apart by what the other side can have seen, since that decides what may be tried again:
`ConnectError` and `ConnectTimeout` mean that not a byte of the request left; everything else means that some may have.
"""

from __future__ import annotations

import asyncio
import io
import socket
import ssl
from collections.abc import AsyncIterator

import aiohttp
import httpx
from yarl import URL

from gateway.egress.session import Generation, Reach
from gateway.egress.tls import TlsSource

_IN_ONE_PIECE_BYTES = 256 << 10


class StaleConnection(httpx.RemoteProtocolError):
    """A kept-alive connection turned out to have been closed before it answered anything: asking again is safe.

    A server closes idle connections when it likes; the request met one that it had just given up.
    """


class UnreadableHead(httpx.RemoteProtocolError):
    """What came is no head of an answer, or one beyond all bounds."""


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends requests to one endpoint through a pool of its own."""

    def __init__(self, reach: Reach, tls: TlsSource | None = None) -> None:
        """Prepare the pool; the first request opens it, inside the event loop that it belongs to.

        Args:
            reach: How connections are made.
            tls: Where certificates come from, for `https`.
        """
        self._reach = reach
        self._tls = tls if reach.endpoint.base.scheme == "https" else None
        self._generation: Generation | None = None
        self._urls: dict[str, URL] = {}
        self._addresses: frozenset[str] = frozenset()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send and return as soon as the response head is there; the body is read from `response.stream`.

        Raises:
            httpx.ConnectError: No connection was made.
            httpx.ConnectTimeout: No connection was made in time.
            StaleConnection: A kept-alive connection had been closed.
            UnreadableHead: What came is no head of an answer.
            httpx.RemoteProtocolError: The connection ended.
            httpx.ReadError: Any other failure after connecting.
            httpx.UnsupportedProtocol: The request is for another endpoint than this one.
        """
        url = self._urls.get(str(request.url)) or self._url(request)
        generation = self._generation or self._open()
        generation.enter()
        try:
            answer = await self._send(generation, request, url)
        except BaseException:
            await generation.leave()
            raise
        return httpx.Response(
            answer.status, headers=list(answer.raw_headers), stream=_Body(answer, generation), request=request
        )

    async def renew(self) -> bool:
        """Let new requests make new connections where certificates or the host's addresses have changed.

        Raises:
            ValueError: The new certificates cannot be read; the old ones stay in use.
        """
        if self._generation is None:
            return False
        addresses = await self._resolved()
        moved = bool(addresses) and addresses != self._addresses and bool(self._addresses)
        self._addresses = addresses or self._addresses
        if not moved and (self._tls is None or not self._tls.has_changed):
            return False
        old, self._generation = self._generation, None
        try:
            self._open()
        except ValueError:
            self._generation = old
            raise
        await old.retire()
        return True

    async def aclose(self) -> None:
        """Close every connection."""
        if self._generation is not None:
            await self._generation.close()
            self._generation = None

    async def _send(self, generation: Generation, request: httpx.Request, url: URL) -> aiohttp.ClientResponse:
        task = asyncio.current_task()
        new = False
        try:
            return await generation.session.request(
                request.method,
                url,
                headers=[(key.decode("latin-1"), value.decode("latin-1")) for key, value in request.headers.raw],
                data=_payload(request.read()),
                allow_redirects=False,
                proxy=self._reach.proxy,
                server_hostname=self._reach.server_name,
            )
        except aiohttp.ConnectionTimeoutError as exc:
            raise httpx.ConnectTimeout("no connection in time", request=request) from exc
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as exc:
            raise httpx.ConnectError(_why(exc), request=request) from exc
        except aiohttp.ServerDisconnectedError as exc:
            new = generation.is_new_connection(task)
            kind = httpx.RemoteProtocolError if new else StaleConnection
            raise kind("ServerDisconnectedError", request=request) from exc
        except aiohttp.ClientResponseError as exc:
            raise UnreadableHead(type(exc).__name__, request=request) from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise httpx.ReadError(type(exc).__name__, request=request) from exc
        finally:
            if not new:
                generation.is_new_connection(task)

    def _url(self, request: httpx.Request) -> URL:
        """The address as aiohttp takes it; one endpoint has few paths, so each is looked at once."""
        asked, own = request.url, self._reach.endpoint.base
        if (asked.scheme, asked.host, asked.port) != (own.scheme, own.host, own.port):
            # A credential goes with every request, and is meant for this host alone.
            raise httpx.UnsupportedProtocol(f"This transport leads to {own.host} alone.", request=request)
        text = str(asked)
        self._urls[text] = URL(text, encoded=True)
        return self._urls[text]

    def _open(self) -> Generation:
        self._generation = Generation(self._reach, None if self._tls is None else self._tls.context())
        return self._generation

    async def _resolved(self) -> frozenset[str]:
        """The host's addresses as of now; nothing where it has no name, or none that can be looked up."""
        endpoint = self._reach.endpoint
        if endpoint.socket_path is not None or self._reach.proxy is not None or _is_address(endpoint.base.host):
            return frozenset()
        resolver = self._reach.resolver or aiohttp.ThreadedResolver()
        try:
            found = await resolver.resolve(endpoint.base.host, endpoint.base.port or 0, socket.AF_UNSPEC)
        except OSError:
            return frozenset()
        return frozenset(each["host"] for each in found)


class _Body(httpx.AsyncByteStream):
    """The body as it arrives, chunk by chunk; closing it before its end closes the connection."""

    def __init__(self, answer: aiohttp.ClientResponse, generation: Generation) -> None:
        self._answer = answer
        self._generation: Generation | None = generation

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.content.iter_any():
                yield chunk
        except aiohttp.ClientPayloadError as exc:
            raise httpx.RemoteProtocolError(type(exc).__name__) from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise httpx.ReadError(type(exc).__name__) from exc

    async def aclose(self) -> None:
        self._answer.close()
        generation, self._generation = self._generation, None
        if generation is not None:
            await generation.leave()


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    """A body as aiohttp takes it: a large one as a file, sent piece by piece, so that others get their turn."""
    if not body:
        return None
    return io.BytesIO(body) if len(body) > _IN_ONE_PIECE_BYTES else body


def _is_address(host: str) -> bool:
    return host.replace(".", "").isdigit() or ":" in host


def _why(error: aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError) -> str:
    """What kept a connection from being made, without an address that a proxy's operator would not want told."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error.os_error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.os_error.verify_message}"
    return type(error.os_error).__name__

"""httpx's transport interface over aiohttp's connections: the seam of the one and about the speed of the other.

The session carries nothing of its own: no cookies, no environment, no default headers, no redirects, no decompression.
Failures are told apart by what the other side can have seen, since that decides what may be tried again:
`ConnectError` and `ConnectTimeout` mean that not a byte of the request left; everything else means that some may have.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import httpx
from yarl import URL

from gateway.egress.endpoint import Endpoint

_NO_DEFAULT_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class StaleConnection(httpx.RemoteProtocolError):
    """A kept-alive connection turned out to have been closed before it answered anything: asking again is safe.

    A server closes idle connections when it likes; the request met one that it had just given up.
    """


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends requests to one endpoint through a pool of its own."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connect_timeout_s: float,
        max_connections: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Prepare the pool; the first request opens it, inside the event loop that it belongs to."""
        self._endpoint = endpoint
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s)
        self._max_connections = max_connections
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._urls: dict[str, URL] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send and return as soon as the response head is there; the body is read from `response.stream`.

        Raises:
            httpx.ConnectError: No connection was made.
            httpx.ConnectTimeout: No connection was made in time.
            StaleConnection: A kept-alive connection had been closed.
            httpx.RemoteProtocolError: The connection ended or the head could not be read.
            httpx.ReadError: Any other failure after connecting.
        """
        session = self._session or self._open()
        reuse = _Reuse()
        try:
            answer = await session.request(
                request.method,
                self._url(request),
                headers=[(key.decode("latin-1"), value.decode("latin-1")) for key, value in request.headers.raw],
                data=request.read() or None,
                allow_redirects=False,
                trace_request_ctx=reuse,
            )
        except aiohttp.ConnectionTimeoutError as exc:
            raise httpx.ConnectTimeout("no connection in time", request=request) from exc
        except aiohttp.ClientConnectorError as exc:
            raise httpx.ConnectError(type(exc.os_error).__name__, request=request) from exc
        except aiohttp.ServerDisconnectedError as exc:
            kind = StaleConnection if reuse.kept_alive else httpx.RemoteProtocolError
            raise kind("ServerDisconnectedError", request=request) from exc
        except (aiohttp.ClientResponseError, aiohttp.ClientPayloadError) as exc:
            raise httpx.RemoteProtocolError(type(exc).__name__, request=request) from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise httpx.ReadError(type(exc).__name__, request=request) from exc
        return httpx.Response(answer.status, headers=list(answer.raw_headers), stream=_Body(answer), request=request)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _url(self, request: httpx.Request) -> URL:
        """The address as aiohttp takes it; one endpoint has few paths, so each is turned over once."""
        text = str(request.url)
        if text not in self._urls:
            self._urls[text] = URL(text, encoded=True)
        return self._urls[text]

    def _open(self) -> aiohttp.ClientSession:
        connector: aiohttp.BaseConnector
        if self._endpoint.socket_path is not None:
            connector = aiohttp.UnixConnector(self._endpoint.socket_path, limit=self._max_connections)
        else:
            secure: Any = self._tls if self._tls is not None else True
            connector = aiohttp.TCPConnector(limit=self._max_connections, ssl=secure, ttl_dns_cache=30)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            raise_for_status=False,
            skip_auto_headers=_NO_DEFAULT_HEADERS,
            timeout=self._timeout,
            trace_configs=[_noting_reuse()],
        )
        return self._session


@dataclass(slots=True)
class _Reuse:
    """Whether a request went over a connection that had served another one before."""

    kept_alive: bool = False


def _noting_reuse() -> aiohttp.TraceConfig:
    tracing = aiohttp.TraceConfig()

    async def note(_: aiohttp.ClientSession, context: Any, __: object) -> None:
        context.trace_request_ctx.kept_alive = True

    tracing.on_connection_reuseconn.append(note)
    return tracing


class _Body(httpx.AsyncByteStream):
    """The body as it arrives, chunk by chunk; closing it before its end closes the connection."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

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

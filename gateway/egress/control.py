"""The control door: probes and state polls. It only GETs paths that the code names, so it carries no request bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import httpx

from gateway.egress.endpoint import Endpoint
from gateway.egress.small_answer import read_small
from inference_protocol.errors import (
    UpstreamCaptive,
    UpstreamCut,
    UpstreamProtocol,
    UpstreamTimedOut,
    UpstreamUnreachable,
)


class ControlDoor:
    """Reads small documents from one endpoint."""

    def __init__(
        self, endpoint: Endpoint, transport: httpx.AsyncBaseTransport, headers: Mapping[str, str] | None = None
    ) -> None:
        """Bind the door.

        Args:
            endpoint: Where it leads.
            transport: Its connections, apart from those of requests.
            headers: The endpoint's credential, where it has one; read at each request, so that it may be renewed.
        """
        self._endpoint = endpoint
        self._transport = transport
        self._headers: Mapping[str, str] = {} if headers is None else headers

    async def get(self, path: str, *, timeout_s: float, accepted: Collection[int] = (200,)) -> bytes:
        """Return the body of an answer with one of the accepted statuses.

        Raises:
            UpstreamUnreachable: Nobody listens there.
            UpstreamTimedOut: No answer in time.
            UpstreamCut: The connection ended before the answer did.
            UpstreamCaptive: A web page, or the way to one.
            UpstreamProtocol: An answer with another status, or one that is too large.
        """
        request = httpx.Request("GET", self._endpoint.url(path), headers=self._headers)
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._transport.handle_async_request(request)
                try:
                    return await self._read(response, accepted)
                finally:
                    await response.aclose()
        except httpx.ConnectError as exc:
            raise UpstreamUnreachable(f"Nobody listens at {self._endpoint.text} ({exc}).") from None
        except (TimeoutError, httpx.ConnectTimeout):
            raise UpstreamTimedOut(f"{self._endpoint.text} did not answer within {timeout_s:g} s.") from None
        except httpx.TransportError as exc:
            raise UpstreamCut(f"{self._endpoint.text} closed the connection ({type(exc).__name__}).") from None

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()

    async def _read(self, response: httpx.Response, accepted: Collection[int]) -> bytes:
        is_page = response.headers.get("content-type", "").lower().startswith("text/html")
        if response.is_redirect or (response.status_code == 200 and is_page):
            raise UpstreamCaptive(
                f"{self._endpoint.text} answered a probe with a web page, or sent it to another place."
            )
        if response.status_code not in accepted:
            raise UpstreamProtocol(f"{self._endpoint.text} answered a probe with {response.status_code}.")
        return await read_small(response, self._endpoint.text)

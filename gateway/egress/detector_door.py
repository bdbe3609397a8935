"""The door to detectors: it carries the text of requests, and leads to this machine and nowhere else."""

from __future__ import annotations

import asyncio

import httpx

from gateway.egress.endpoint import Endpoint
from gateway.egress.session import Reach
from gateway.egress.small_answer import read_small
from gateway.egress.transport import AiohttpTransport
from inference_protocol.errors import UpstreamCut, UpstreamProtocol, UpstreamTimedOut

_CONNECTIONS = 8


class DetectorDoor:
    """Posts JSON to one endpoint of this machine."""

    def __init__(self, endpoint: Endpoint, *, connect_timeout_s: float) -> None:
        """Bind the door; nothing is opened yet.

        Raises:
            ValueError: The endpoint is not on this machine.
        """
        if not endpoint.is_this_machine:
            raise ValueError(f"{endpoint.text!r} is not on this machine, so no text may be sent there")
        self._endpoint = endpoint
        self._transport = AiohttpTransport(
            Reach(endpoint, connect_timeout_s=connect_timeout_s, max_connections=_CONNECTIONS)
        )

    async def post(self, path: str, body: bytes, *, timeout_s: float) -> bytes:
        """Return the body of an answer with status 200.

        Raises:
            UpstreamTimedOut: No answer in time.
            UpstreamCut: No connection, or one that ended.
            UpstreamProtocol: Another status, or too much.
        """
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        request = httpx.Request("POST", self._endpoint.url(path), headers=headers, stream=httpx.ByteStream(body))
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._transport.handle_async_request(request)
                try:
                    return await self._read(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise UpstreamTimedOut(f"The detector did not answer within {timeout_s:g} s.") from None
        except httpx.TransportError as exc:
            raise UpstreamCut(f"The detector cannot be asked ({type(exc).__name__}).") from None

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def _read(self, response: httpx.Response) -> bytes:
        if response.status_code != 200:
            raise UpstreamProtocol(f"The detector answered with {response.status_code}.")
        return await read_small(response, "The detector")

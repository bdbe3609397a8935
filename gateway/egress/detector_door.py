"""The door to detectors: it carries the content of requests, and leads to this machine and nowhere else."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import httpx

from gateway.egress.endpoint import Endpoint
from gateway.egress.session import Reach
from gateway.egress.small_answer import MAX_ANSWER_BYTES, read_small
from gateway.egress.transport import AiohttpTransport
from inference_protocol import headers
from inference_protocol.errors import UpstreamCut, UpstreamProtocol, UpstreamTimedOut

_CONNECTIONS = 8


class Answered(NamedTuple):
    """The body of an answer; of `json_bytes` its JSON is long, where tensors follow as bytes."""

    body: bytes
    json_bytes: int | None


class DetectorDoor:
    """Asks one endpoint of this machine."""

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
        """Post JSON; see `ask`."""
        return (await self.ask("POST", path, body, timeout_s=timeout_s)).body

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        json_bytes: int | None = None,
        timeout_s: float,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Answered:
        """Return an answer with status 200.

        Args:
            method: `GET` or `POST`.
            path: Where.
            body: JSON, or tensors as bytes behind their JSON.
            json_bytes: Length of the JSON, where something follows it.
            timeout_s: For the whole of the answer.
            max_bytes: Most that it may hold.

        Raises:
            UpstreamTimedOut: No answer in time.
            UpstreamCut: No connection, or one that ended.
            UpstreamProtocol: Another status, or too much.
        """
        kind = "application/json" if json_bytes is None else "application/octet-stream"
        fields = {"content-type": kind, "content-length": str(len(body))} if method == "POST" else {}
        if json_bytes is not None:
            fields[headers.INFERENCE_JSON_LENGTH] = str(json_bytes)
        request = httpx.Request(method, self._endpoint.url(path), headers=fields, stream=httpx.ByteStream(body))
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._transport.handle_async_request(request)
                try:
                    return await self._read(response, max_bytes)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise UpstreamTimedOut(f"The detector did not answer within {timeout_s:g} s.") from None
        except httpx.TransportError as exc:
            raise UpstreamCut(f"The detector cannot be asked ({type(exc).__name__}).") from None

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def _read(self, response: httpx.Response, max_bytes: int) -> Answered:
        if response.status_code != 200:
            raise UpstreamProtocol(f"The detector answered with {response.status_code}.")
        length = response.headers.get(headers.INFERENCE_JSON_LENGTH, "")
        body = await read_small(response, "The detector", max_bytes)
        return Answered(body, int(length) if length.isdecimal() else None)

"""The body of an answer that has a bound: what detectors and probes are answered with."""

from __future__ import annotations

import httpx

from inference_protocol.errors import UpstreamProtocol

MAX_ANSWER_BYTES = 1 << 20


async def read_small(response: httpx.Response, who: str, max_bytes: int = MAX_ANSWER_BYTES) -> bytes:
    """Return the whole body; `who` answers, in words that may be told.

    Raises:
        UpstreamProtocol: It is larger than `max_bytes`.
    """
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > max_bytes:
            raise UpstreamProtocol(f"{who} answered with more than {max_bytes} bytes.")
    return bytes(body)

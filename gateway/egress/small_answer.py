"""The body of an answer that must be small: what detectors and probes are answered with."""

from __future__ import annotations

import httpx

from inference_protocol.errors import UpstreamProtocol

MAX_ANSWER_BYTES = 1 << 20


async def read_small(response: httpx.Response, who: str) -> bytes:
    """Return the whole body; `who` answers, in words that may be told.

    Raises:
        UpstreamProtocol: It is larger than `MAX_ANSWER_BYTES`.
    """
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise UpstreamProtocol(f"{who} answered with more than {MAX_ANSWER_BYTES} bytes.")
    return bytes(body)

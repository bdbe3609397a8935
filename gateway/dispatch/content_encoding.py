"""A target's bytes without a compression that nobody asked for: some send it all the same, and proxies add it."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import httpx

from inference_protocol.errors import UpstreamProtocol

_ANY_WRAPPING = 32 + zlib.MAX_WBITS  # gzip or zlib, as its head says
_MOST_AT_ONCE = 1 << 20  # bytes inflated from one chunk before they are looked at


def decoded(response: httpx.Response) -> AsyncIterator[bytes]:
    """Return the body's chunks, inflated where they are compressed.

    Raises:
        UpstreamProtocol: The compression is none that can be undone here.
    """
    chunks = aiter(response.stream)  # type: ignore[arg-type]  # transports here are asynchronous
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        return chunks
    if encoding in {"gzip", "x-gzip", "deflate"}:
        return _inflated(chunks)
    raise UpstreamProtocol(f"The target's answer is compressed as {encoding[:20]!r}, though nobody asked for that.")


async def _inflated(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    inflater = zlib.decompressobj(_ANY_WRAPPING)
    try:
        async for chunk in chunks:
            rest = chunk
            while rest:
                yield inflater.decompress(rest, _MOST_AT_ONCE)
                rest = inflater.unconsumed_tail
        yield inflater.flush()
    except zlib.error:
        raise UpstreamProtocol("The target's answer is compressed, and broken.") from None
    if not inflater.eof:
        raise UpstreamProtocol("The target's compressed answer ends in the middle.")

"""Giving a kept answer to a reader, from any event on: the caller who still waits, and whoever comes back."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import Message, Send

from gateway.kept.answer import KeptAnswer
from inference_protocol import sse


class Delivery:
    """Delivers answers within two bounds."""

    def __init__(self, *, reader_s: float, ping_s: float) -> None:
        """Set the bounds.

        Args:
            reader_s: Longest time that a reader may take to make room.
            ping_s: Silence after which the reader of a stream is sent a comment.
        """
        self._reader_s = reader_s
        self._ping_s = ping_s

    async def deliver(self, answer: KeptAnswer, send: Send, after: int = 0) -> None:
        """Send all that follows the first `after` pieces, and return when the answer is complete.

        Of an answer that was given up before its head came, nothing is sent.

        Raises:
            ClientDisconnect: The reader takes nothing any more.
        """
        await answer.until_begun()
        head = answer.head
        if head is None:
            return
        await self._send(send, {"type": "http.response.start", "status": head.status, "headers": head.headers})
        async for piece in answer.read(after, self._ping_s):
            if piece is None and not head.is_stream:
                continue
            await self._send(
                send, {"type": "http.response.body", "body": sse.PING if piece is None else piece, "more_body": True}
            )
        await self._send(send, {"type": "http.response.body", "body": b""})

    async def _send(self, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(self._reader_s):
                await send(message)
        except TimeoutError:
            raise ClientDisconnect from None

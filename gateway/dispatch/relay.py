"""The committed answer on its way to the caller: head, then bytes as they come, and one clean end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.requests import ClientDisconnect
from starlette.types import Message, Send

from gateway.answer import Answer, BufferedAnswer
from gateway.exchange import Exchange
from inference_protocol import sse
from inference_protocol.errors import TidegateError
from serving.answers import STREAM_HEADERS, error_body, send_head, send_json

READER_PATIENCE_S = 60.0


async def relay(answer: Answer, exchange: Exchange, headers: Mapping[str, str], send: Send) -> None:
    """Send the head and everything after it.

    A stream that fails past this point ends with an error event and no `[DONE]`; the failure is noted in the exchange
    and not raised, since the caller has been told. A caller who takes nothing for a minute counts as gone: they must
    not hold the target's slot.

    Raises:
        ClientDisconnect: The caller takes nothing any more.
    """
    if isinstance(answer, BufferedAnswer):
        await send_json(send, 200, answer.body, headers)
        return
    await send_head(send, 200, {**headers, **STREAM_HEADERS})
    try:
        async for chunk in answer.relay():
            await _send_patiently(send, {"type": "http.response.body", "body": chunk, "more_body": True})
    except TidegateError as exc:
        exchange.fail(exc)
        event = sse.encode_data(error_body(exc, exchange.request_id))
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _send_patiently(send: Send, message: Message) -> None:
    try:
        async with asyncio.timeout(READER_PATIENCE_S):
            await send(message)
    except TimeoutError:
        raise ClientDisconnect from None

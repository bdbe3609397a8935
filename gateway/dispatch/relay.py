"""The committed answer on its way to the caller: head, then bytes as they come, and one clean end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import orjson
from starlette.types import Message

from gateway.dispatch.attempt import Answer, BufferedAnswer
from gateway.exchange import Exchange
from inference_protocol import sse
from inference_protocol.errors import TidegateError

Send = Callable[[Message], Awaitable[None]]


async def relay(answer: Answer, exchange: Exchange, headers: Mapping[str, str], send: Send, now: float) -> None:
    """Send the head, which commits the answer, and everything after it.

    A stream that fails past this point ends with an error event and no `[DONE]`; the failure is noted in the exchange
    and not raised, since the caller has been told.
    """
    exchange.committed_at = now
    if isinstance(answer, BufferedAnswer):
        sized = {**headers, "content-type": "application/json", "content-length": str(len(answer.body))}
        await send_head(send, 200, sized)
        await send({"type": "http.response.body", "body": answer.body})
        return
    streamed = {
        **headers,
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",  # a buffering proxy in front would turn time to first token into time to last
    }
    await send_head(send, 200, streamed)
    try:
        async for chunk in answer.relay():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except TidegateError as exc:
        exchange.fail(exc)
        await send({"type": "http.response.body", "body": error_event(exc, exchange.request_id), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def error_event(error: TidegateError, request_id: str) -> bytes:
    """The event that ends a stream which cannot go on."""
    return sse.encode_data(orjson.dumps(error.to_openai(request_id)))


async def send_head(send: Send, status: int, headers: Mapping[str, str]) -> None:
    """Send a response head."""
    raw = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def send_json(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a whole JSON response."""
    await send_head(send, status, {**headers, "content-type": "application/json", "content-length": str(len(body))})
    await send({"type": "http.response.body", "body": body})

"""The committed answer on its way to the caller: head, then bytes as they come, and one clean end."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Send

from gateway.answer import Answer, BufferedAnswer
from gateway.dispatch.stream_watch import StreamLimits, StreamWatch
from gateway.exchange import Exchange
from inference_protocol import sse
from inference_protocol.errors import TidegateError
from serving.answers import STREAM_HEADERS, error_body, send_head, send_whole


async def relay(
    answer: Answer, exchange: Exchange, headers: Mapping[str, str], send: Send, limits: StreamLimits
) -> None:
    """Send the head and everything after it.

    A stream that fails past this point ends with an error event and no `[DONE]`; the failure is noted in the exchange
    and not raised, since the caller has been told. A caller who takes nothing for a while counts as gone: they must
    not hold the target's slot.

    Raises:
        ClientDisconnect: The caller takes nothing any more.
    """
    if isinstance(answer, BufferedAnswer):
        await send_whole(send, 200, answer.body, {**headers, **answer.head})
        return

    async def ping() -> None:
        await send({"type": "http.response.body", "body": sse.PING, "more_body": True})

    await send_head(send, 200, {**headers, **STREAM_HEADERS})
    try:
        async with StreamWatch(answer.facts, limits, ping) as watch:
            async for chunk in answer.relay():
                watch.begun += 1
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                watch.done += 1
    except TidegateError as exc:
        exchange.fail(exc)
        event = sse.encode_data(error_body(exc, exchange.request_id))
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})

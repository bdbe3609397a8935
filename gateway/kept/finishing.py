"""`x-on-disconnect: finish`: a request is answered to its end, whether or not its caller waits for that.

The request stays inside for as long as its answer is made: it holds its places, counts for its key, and is settled when
the answer is over. Its caller reads what is kept, like everybody who comes back for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Send

from gateway.api.response_headers import error_headers
from gateway.exchange import Exchange
from gateway.kept.answers import Kept, KeptAnswers, Owner
from gateway.kept.delivery import Delivery
from inference_protocol import headers, sse
from inference_protocol.errors import AnswerGone, InvalidHeader, TidegateError
from inference_protocol.outcome import Outcome
from serving.answers import error_body, send_json
from serving.client_watch import watched_client

Respond = Callable[[Send], Coroutine[Any, Any, None]]
"""Answers one request into whatever it is handed."""


def wants_finish(exchange: Exchange, fields: Mapping[str, str]) -> bool:
    """Whether the request shall be finished without its caller.

    Raises:
        InvalidHeader: The header says something else.
        PermissionDenied: The caller's key may not ask for that.
    """
    wanted = fields.get(headers.ON_DISCONNECT)
    if wanted is None or wanted == "stop":
        return False
    if wanted != "finish":
        raise InvalidHeader(f"`{headers.ON_DISCONNECT}` must be `stop` or `finish`.", param=headers.ON_DISCONNECT)
    assert exchange.principal is not None, "identify comes first"
    exchange.principal.check_may("finish", headers.ON_DISCONNECT)
    return True


class Finishing:
    """Has requests answered to their end."""

    def __init__(self, answers: KeptAnswers, delivery: Delivery) -> None:
        """Keep what is answered in `answers`, and give it to callers by `delivery`."""
        self._answers = answers
        self._delivery = delivery

    async def run(self, exchange: Exchange, respond: Respond, send: Send, receive: Receive) -> None:
        """Answer a request, and return when its answer is complete and its caller has it or is gone."""
        assert exchange.principal is not None, "identify comes first"
        kept = self._answers.open(exchange.request_id, Owner.of(exchange.principal))
        async with watched_client(receive) as client:
            reading = asyncio.create_task(self._delivery.deliver(kept.answer, send), name="kept-reader")
            client.when_gone(reading.cancel)
            try:
                await self.produce(exchange, kept, respond)
                await asyncio.wait([reading])
            except BaseException:
                reading.cancel()
                await asyncio.wait([reading])
                raise
            if _has_left(reading) and exchange.outcome is None:
                exchange.outcome = Outcome.FINISHED_DETACHED

    async def produce(self, exchange: Exchange, kept: Kept, respond: Respond) -> None:
        """Have an answer made, until it is complete or its owner stops it."""
        here = asyncio.current_task()
        assert here is not None, "it is made by a task"
        kept.when_stopped(here.cancel)
        failed = True
        try:
            await respond(kept.answer.send)
            failed = exchange.outcome is not None
        except TidegateError as exc:
            exchange.fail(exc)
            await _tell(exchange, kept, exc)
        except asyncio.CancelledError:
            exchange.outcome = Outcome.CLIENT_CLOSED
            if not kept.was_stopped or here.uncancel():
                raise
            await _tell(exchange, kept, AnswerGone("The request was stopped.", details={"reason": "stopped"}))
        finally:
            self._answers.close(kept, failed=failed)


async def _tell(exchange: Exchange, kept: Kept, error: TidegateError) -> None:
    """Put an error in the answer's place, or at the end of a stream that has begun."""
    kept.failed = True
    body = error_body(error, exchange.request_id)
    head = kept.answer.head
    if head is not None and head.is_stream:
        await kept.answer.send({"type": "http.response.body", "body": sse.encode_data(body)})
    else:
        await send_json(kept.answer.send, error.http_status, body, error_headers(exchange, error))


def _has_left(reading: asyncio.Task[None]) -> bool:
    return reading.cancelled() or isinstance(reading.exception(), ClientDisconnect)

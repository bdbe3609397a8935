"""Steps 1 and 8 for every inference protocol: bytes to a request, an answer to bytes, one settlement at the end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from gateway.api.body import read_headers
from gateway.api.head import error_headers, response_headers
from gateway.dispatch.relay import relay
from gateway.exchange import Exchange
from gateway.pipeline import Pipeline
from gateway.settle import Settlement
from inference_protocol.errors import InternalError, TidegateError
from inference_protocol.outcome import Outcome
from inference_protocol.request import InferenceRequest
from serving.answers import error_body, send_json
from serving.client_watch import watched_client
from serving.crashes import CRASHED, log_crash
from serving.in_flight import InFlight

logger = logging.getLogger(__name__)


class InferenceEndpoint:
    """One inference route, as plain ASGI."""

    def __init__(  # the wiring of a route, called in one place
        self,
        parse: Callable[[bytes], InferenceRequest],
        pipeline: Pipeline,
        settlement: Settlement,
        admission: InFlight,
        *,
        begin: Callable[[Scope], Exchange],
        clock: Callable[[], float],
        read_body: Callable[[Scope, Receive], Awaitable[bytes]],
    ) -> None:
        """Wire the route.

        Args:
            parse: From body bytes to the canonical request, raising `InvalidRequest`.
            pipeline: Steps 2 to 6.
            settlement: Step 8.
            admission: Bounds how many requests are inside.
            begin: Opens the exchange of a request.
            clock: Monotonic seconds.
            read_body: Takes a body in, within bounds.
        """
        self._parse = parse
        self._pipeline = pipeline
        self._settlement = settlement
        self._admission = admission
        self._begin = begin
        self._clock = clock
        self._read_body = read_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange = self._begin(scope)
        try:
            await self._guarded(exchange, scope, receive, send)
        except ClientDisconnect:
            exchange.outcome = Outcome.CLIENT_CLOSED
        except asyncio.CancelledError:
            exchange.outcome = exchange.outcome or Outcome.CLIENT_CLOSED
            raise
        finally:
            self._settlement.settle(exchange)

    async def _guarded(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._work(exchange, scope, receive, send)
        except TidegateError as exc:
            await self._refuse(exchange, exc, send)
        except ClientDisconnect:
            raise
        except Exception as exc:
            log_crash(logger, exchange.request_id, exc)
            await self._refuse(exchange, InternalError(CRASHED), send)

    async def _work(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        headers = read_headers(scope)
        self._pipeline.identify(exchange, headers)
        with self._admission.place():
            raw = await self._read_body(scope, receive)
            started = time.perf_counter()
            request = self._parse(raw)
            exchange.parts_ms["parse"] = (time.perf_counter() - started) * 1000

            async def answer() -> None:
                await self._pipeline.decide(exchange, request, headers)
                committed = await self._pipeline.answer(exchange)
                try:
                    now = self._clock()
                    await relay(committed, exchange, response_headers(exchange, now), send, now)
                finally:
                    await committed.aclose()

            await unless_gone(answer(), receive)

    async def _refuse(self, exchange: Exchange, error: TidegateError, send: Send) -> None:
        exchange.fail(error)
        if exchange.committed_at is None:
            body = error_body(error, exchange.request_id)
            await send_json(send, error.http_status, body, error_headers(exchange, error))


async def unless_gone(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run `work` here, and cancel it when the caller hangs up.

    Raises:
        ClientDisconnect: The caller hung up first; `work` has ended by then.
    """
    here = asyncio.current_task()
    assert here is not None
    async with watched_client(receive) as client:
        client.when_gone(here.cancel)
        try:
            await work
            if client.gone:
                await asyncio.sleep(0)  # the cancellation that came too late arrives here and not somewhere later
        except asyncio.CancelledError:
            if client.gone and here.uncancel() == 0:
                raise ClientDisconnect from None
            raise

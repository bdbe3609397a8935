"""`POST /v1/route/explain`: what would be decided for this very request, and why. Sends nothing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from gateway.api.body import read_headers
from gateway.api.head import decision_headers, error_headers
from gateway.exchange import Exchange
from gateway.pipeline import Pipeline
from inference_protocol.errors import InternalError, TidegateError
from inference_protocol.request import InferenceRequest
from routing_policies.explain import explain
from serving.answers import error_body, send_json
from serving.crashes import CRASHED, log_crash

logger = logging.getLogger(__name__)

PATH = "/v1/route/explain"


class ExplainEndpoint:
    """Runs a chat request through every step up to the decision, and prints that."""

    def __init__(
        self,
        parse: Callable[[bytes], InferenceRequest],
        pipeline: Pipeline,
        *,
        begin: Callable[[Scope], Exchange],
        read_body: Callable[[Scope, Receive], Awaitable[bytes]],
    ) -> None:
        """Wire the route as `InferenceEndpoint` does, less everything that comes after the decision."""
        self._parse = parse
        self._pipeline = pipeline
        self._begin = begin
        self._read_body = read_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the explanation."""
        exchange = self._begin(scope)
        try:
            found = await self._explained(exchange, scope, receive)
        except TidegateError as exc:
            await _refuse(exchange, exc, send)
        except ClientDisconnect:
            pass
        except Exception as exc:
            log_crash(logger, exchange.request_id, exc)
            await _refuse(exchange, InternalError(CRASHED), send)
        else:
            await send_json(send, 200, orjson.dumps(found), decision_headers(exchange))

    async def _explained(self, exchange: Exchange, scope: Scope, receive: Receive) -> dict[str, Any]:
        headers = read_headers(scope)
        self._pipeline.identify(exchange, headers)
        request = self._parse(await self._read_body(scope, receive))
        decided = await self._pipeline.decide(exchange, request, headers)
        found = explain(decided.verdict, decided.view, decided.snapshot, decided.policy)
        return {"request_id": exchange.request_id, **found}


async def _refuse(exchange: Exchange, error: TidegateError, send: Send) -> None:
    body = error_body(error, exchange.request_id)
    await send_json(send, error.http_status, body, error_headers(exchange, error))

"""Steps 1, 2 and 8 for every route that takes an inference request: what is done with it stands between them."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from gateway.api.public_models import Parse
from gateway.api.request_headers import read_headers
from gateway.api.response_headers import error_headers
from gateway.exchange import Exchange
from gateway.identity import Identity
from gateway.kept.finishing import Finishing, wants_finish
from gateway.off_loop import READ_BYTES, off_loop_if_large
from gateway.principal import Role
from gateway.quota import Quotas
from gateway.settle import Settlement
from inference_protocol.errors import InternalError, TidegateError
from inference_protocol.outcome import Outcome
from inference_protocol.request import InferenceRequest
from serving.answers import error_body_at, send_json
from serving.client_watch import unless_gone
from serving.crashes import CRASHED, log_crash
from serving.in_flight import InFlight

_logger = logging.getLogger(__name__)


class BodyReader(Protocol):
    """Takes a body in, within bounds."""

    def __call__(self, scope: Scope, receive: Receive, *, take: Callable[[int], None]) -> Awaitable[bytes]:
        """Read it; `take` is told of its bytes before they are kept."""
        ...


Respond = Callable[[Exchange, InferenceRequest, Mapping[str, str], Send], Coroutine[Any, Any, None]]
"""Takes an identified request with its headers, and sends what it is answered with."""


class InferenceEndpoint:
    """One inference route, as plain ASGI."""

    def __init__(  # noqa: PLR0913  # the wiring of the way, called in one place
        self,
        respond: Respond,
        *,
        begin: Callable[[Scope], Exchange],
        identity: Identity,
        admission: InFlight,
        quotas: Quotas,
        read_body: BodyReader,
        parser: Callable[[Scope], Parse],
        settlement: Settlement,
        finishing: Finishing | None = None,
    ) -> None:
        """Wire the route.

        Args:
            respond: What is done with a request.
            begin: Opens its exchange.
            identity: Step 2.
            admission: Bounds how many requests are inside.
            quotas: Bound what a caller may take.
            read_body: Takes a body in, within bounds.
            parser: Gives, for a path and its headers, what makes body bytes the canonical request, raising
                `InvalidRequest`.
            settlement: Step 8.
            finishing: Answers requests whose callers may hang up; `None` where no answer takes long.
        """
        self._respond = respond
        self._begin = begin
        self._identity = identity
        self._admission = admission
        self._quotas = quotas
        self._read_body = read_body
        self._parser = parser
        self._settlement = settlement
        self._finishing = finishing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange = self._begin(scope)
        try:
            await self._serve(exchange, scope, receive, send)
        except TidegateError as exc:
            await _refuse(exchange, exc, send)
        except ClientDisconnect:
            exchange.outcome = Outcome.CLIENT_CLOSED
        except asyncio.CancelledError:
            exchange.outcome = exchange.outcome or Outcome.CLIENT_CLOSED
            raise
        except Exception as exc:
            log_crash(_logger, exchange.request_id, exc, exchange.span)
            await _refuse(exchange, InternalError(CRASHED), send)
        finally:
            self._settlement.settle(exchange)

    async def _serve(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        headers = read_headers(scope)
        exchange.principal = await self._identity.identify(headers)
        exchange.principal.check_role(Role.INFERENCE)
        finishing = self._finishing if wants_finish(exchange, headers) else None
        exchange.grant = self._quotas.grant(exchange.principal)
        with exchange.grant.place(), self._admission.place() as place:
            raw = await self._read_body(scope, receive, take=place.take)
            with exchange.timed("parse"):
                request = await off_loop_if_large(len(raw), READ_BYTES, self._parser(scope), raw)
            if finishing is None:
                await unless_gone(self._respond(exchange, request, headers, send), receive)
            else:
                respond = functools.partial(self._respond, exchange, request, headers)
                await finishing.run(exchange, respond, send, receive)


async def _refuse(exchange: Exchange, error: TidegateError, send: Send) -> None:
    exchange.fail(error)
    if exchange.committed_at is None:
        body = error_body_at(exchange.route, error, exchange.request_id)
        await send_json(send, error.http_status, body, error_headers(exchange, error))

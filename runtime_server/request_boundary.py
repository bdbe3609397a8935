"""The rim of every request: it gets its id here, and whatever goes wrong inside becomes an answer in OpenAI's shape."""

from __future__ import annotations

import logging
import uuid
from typing import Never

from opentelemetry.trace import StatusCode
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inference_protocol import headers, sse
from inference_protocol import telemetry_names as names
from inference_protocol.errors import InternalError, TidegateError
from inference_protocol.outcome import Outcome
from observability import server_span
from serving.answers import EVENT_STREAM, error_body_at, error_headers, refusal_of, send_json
from serving.crashes import log_crash
from serving.http_request import callers_request_id

# Where a request's scope holds its id.
REQUEST_ID_KEY = "tidegate.request_id"

_logger = logging.getLogger(__name__)


class RequestBoundary:
    """Pure ASGI middleware: adds `x-request-id` to each answer, and turns each exception into an answer.

    A failure in the middle of a stream ends it with one error event and no `[DONE]`. A client that hung up is no error
    and gets no answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Whoever calls a runtime is the gateway: its id joins both programs' logs and traces.
        request_id = scope[REQUEST_ID_KEY] = callers_request_id(scope) or uuid.uuid4().hex
        head: Message | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal head
            if message["type"] == "http.response.start":
                head = message
                message["headers"] = [*message["headers"], (headers.REQUEST_ID.encode(), request_id.encode())]
            await send(message)

        span = server_span(scope)
        span.set_attribute(names.REQUEST_ID, request_id)
        outcome = Outcome.OK
        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            outcome = Outcome.CLIENT_CLOSED
        except TidegateError as error:
            outcome = await _report(error, request_id, scope, send_with_id, head)
        except Exception as error:
            log_crash(_logger, f"Request {request_id}", error, span)
            fault = InternalError("The runtime failed on this request; its log says why.")
            outcome = await _report(fault, request_id, scope, send_with_id, head)
        finally:
            span.set_attribute(names.OUTCOME, outcome.value)


async def refuse_as_ours(_: Request, exc: Exception) -> Never:
    """Exception handler for Starlette: what its router refuses, in our words.

    Raises:
        TidegateError: Always.
    """
    assert isinstance(exc, HTTPException), "it is registered for nothing else"
    raise refusal_of(exc)


async def _report(error: TidegateError, request_id: str, scope: Scope, send: Send, head: Message | None) -> Outcome:
    span = server_span(scope)
    if error.http_status >= 500:
        span.set_attribute(names.ERROR_TYPE, error.error_type)
        span.set_status(StatusCode.ERROR)
    body = error_body_at(scope["path"], error, request_id)
    if head is None:
        await send_json(send, error.http_status, body, error_headers(error))
    elif (b"content-type", EVENT_STREAM.encode()) in head["headers"]:
        await send({"type": "http.response.body", "body": sse.encode_data(body)})
    else:
        raise error  # part of an answer with a length has gone out; only a cut connection can tell
    return Outcome.of(error)

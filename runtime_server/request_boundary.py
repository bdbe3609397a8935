"""The rim of every request: it gets its id here, and whatever goes wrong inside becomes an answer in OpenAI's shape."""

from __future__ import annotations

import json
import logging
import math
from typing import Never

from opentelemetry.trace import StatusCode
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inference_protocol import headers, sse
from inference_protocol import telemetry_names as names
from inference_protocol.errors import InternalError, MethodNotAllowed, TidegateError, UnknownRoute
from inference_protocol.outcome import Outcome
from observability import server_span
from runtime_server import http_request

REQUEST_ID_KEY = "tidegate.request_id"
"""Where a request's scope holds its id."""
EVENT_STREAM = (b"content-type", b"text/event-stream; charset=utf-8")

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
        request_id = scope[REQUEST_ID_KEY] = http_request.request_id(scope)
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
        except Exception:
            _logger.exception("Request %s failed", request_id)
            fault = InternalError("The runtime failed on this request; its log says why.")
            outcome = await _report(fault, request_id, scope, send_with_id, head)
        finally:
            span.set_attribute(names.OUTCOME, outcome.value)


async def refuse_as_ours(_: Request, exc: Exception) -> Never:
    """Exception handler for Starlette: what its router refuses, in our words.

    Raises:
        UnknownRoute: The router knows no such path.
        MethodNotAllowed: It knows the path, not the method.
    """
    if isinstance(exc, HTTPException) and exc.status_code == 405:
        raise MethodNotAllowed("This path takes another method.", details={"allow": (exc.headers or {}).get("Allow")})
    raise UnknownRoute("There is no such path.")


async def _report(error: TidegateError, request_id: str, scope: Scope, send: Send, head: Message | None) -> Outcome:
    span = server_span(scope)
    if error.http_status >= 500:
        span.set_attribute(names.ERROR_TYPE, error.error_type)
        span.set_status(StatusCode.ERROR)
    # Not orjson: a key of the caller's may hold half a surrogate pair, which only escapes can carry.
    body = json.dumps(error.to_openai(request_id)).encode()
    if head is None:
        await send({"type": "http.response.start", "status": error.http_status, "headers": _headers_of(error, body)})
    elif EVENT_STREAM in head["headers"]:
        body = sse.encode_data(body)
    else:
        raise error  # part of an answer with a length has gone out; only a cut connection can tell
    await send({"type": "http.response.body", "body": body})
    return Outcome.of(error)


def _headers_of(error: TidegateError, body: bytes) -> list[tuple[bytes, bytes]]:
    found = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if error.retry_after_s is not None:
        found.append((headers.RETRY_AFTER.encode(), b"%d" % math.ceil(error.retry_after_s)))
    return found

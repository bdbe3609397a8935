"""The one SERVER span of a request, as pure ASGI middleware: it lasts until the app call returns, so a whole stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from typing import Any

from opentelemetry.trace import INVALID_SPAN, Link, Span, SpanKind, StatusCode, Tracer, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inference_protocol import telemetry_names as names
from observability.spans import NO_CONTEXT

# Where a request's scope holds its SERVER span.
SPAN_KEY = "tidegate.span"

_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"})
_PATH_LIMIT = 256


def server_span(scope: Scope) -> Span:
    """Return the request's SERVER span, or a span that records nothing where there is none."""
    span: Span = scope.get(SPAN_KEY, INVALID_SPAN)
    return span


class ServerSpanMiddleware:
    """Starts a SERVER span for each HTTP request and ends it once, however the request ended.

    Names and attributes follow the stable HTTP semantic conventions. A 5xx and an escaped exception are errors; a 4xx
    and a client that hangs up are not. An `error.type` or status that the app sets on the span itself stands.
    """

    def __init__(self, app: ASGIApp, tracer: Tracer, *, trust_inbound: bool, quiet_paths: Collection[str]) -> None:
        """Wrap `app`.

        Args:
            app: The ASGI application.
            tracer: From `set_up`.
            trust_inbound: Whether a caller's `traceparent` becomes the parent. If not, a new trace links to it, so
                that a stranger chooses neither our trace ids nor what we sample.
            quiet_paths: Paths that get no span, such as probes.
        """
        self._app = app
        self._tracer = tracer
        self._trust_inbound = trust_inbound
        self._quiet_paths = frozenset(quiet_paths)
        # Trace context alone: baggage is whatever a caller likes, and would travel on to others.
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request under its span."""
        if scope["type"] != "http" or scope["path"] in self._quiet_paths:
            await self._app(scope, receive, send)
            return
        span = scope[SPAN_KEY] = self._start(scope)
        status: int | None = None

        # Not a coroutine itself: handing the inner awaitable through spares a frame for each chunk of a stream.
        def send_noting_status(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            return send(message)

        failure: type[BaseException] | None = None
        try:
            await self._app(scope, receive, send_noting_status)
        except BaseException as error:
            failure = type(error)
            raise
        finally:
            _finish(span, scope, status, failure)

    def _start(self, scope: Scope) -> Span:
        method = scope["method"]
        attributes = {
            names.HTTP_REQUEST_METHOD: method if method in _METHODS else "_OTHER",
            names.URL_PATH: scope["path"][:_PATH_LIMIT],
            names.URL_SCHEME: scope["scheme"],
        }
        context = NO_CONTEXT
        links: tuple[Link, ...] = ()
        carrier = _trace_headers(scope)
        if carrier:
            inbound = self._propagator.extract(carrier, NO_CONTEXT)
            if self._trust_inbound:
                context = inbound
            else:
                links = _link_to(get_current_span(inbound))
        return self._tracer.start_span(
            method, context=context, kind=SpanKind.SERVER, attributes=attributes, links=links
        )


def _trace_headers(scope: Scope) -> dict[str, list[str]]:
    """Return the trace context headers; nothing where `traceparent` is missing or came twice."""
    carrier: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        if name in (b"traceparent", b"tracestate"):
            carrier.setdefault(name.decode("ascii"), []).append(value.decode("latin-1"))
    return carrier if len(carrier.get("traceparent", ())) == 1 else {}


def _link_to(remote: Span) -> tuple[Link, ...]:
    context = remote.get_span_context()
    return (Link(context),) if context.is_valid else ()


def _finish(span: Span, scope: Scope, status: int | None, failure: type[BaseException] | None) -> None:
    if not span.is_recording():
        return
    method = scope["method"] if scope["method"] in _METHODS else "HTTP"
    attributes: dict[str, str | int] = {}
    route = _route(scope)
    if route is not None:
        attributes[names.HTTP_ROUTE] = route
    if status is not None:
        attributes[names.HTTP_RESPONSE_STATUS_CODE] = status
    error_type = _error_type(status, failure)
    if error_type is not None:
        if names.ERROR_TYPE not in _attributes_of(span):
            attributes[names.ERROR_TYPE] = error_type
        span.set_status(StatusCode.ERROR)
    span.set_attributes(attributes)
    span.update_name(method if route is None else f"{method} {route}")
    span.end()


def _route(scope: Scope) -> str | None:
    """Return the template of the route that matched, which unlike the path has few values."""
    template: str | None = getattr(scope.get("route"), "path", None)
    if template is None and "endpoint" in scope and not scope.get("path_params"):
        # FastAPI names the route of its own endpoints alone. One without parameters is its own template.
        template = scope["path"]
    return template


def _error_type(status: int | None, failure: type[BaseException] | None) -> str | None:
    # Being cancelled, or reading from a closed connection, is how a client that went away looks from here.
    if failure is not None and not issubclass(failure, (asyncio.CancelledError, ClientDisconnect)):
        return failure.__qualname__
    return str(status) if status is not None and status >= 500 else None


def _attributes_of(span: Span) -> Any:
    """Return what the app has set so far; the API's `Span` alone does not promise that it can be read."""
    return getattr(span, "attributes", ())

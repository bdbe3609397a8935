"""Opening the exchange of a request: its id, its clocks, its span."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.trace import Span
from starlette.types import Scope

from gateway.exchange import Exchange
from observability.server_span import server_span
from serving.http_request import callers_request_id


class ExchangeOpener:
    """Makes exchanges. The request id is ours alone, so that a caller cannot write into another request's record."""

    def __init__(self, *, clock: Callable[[], float], wall: Callable[[], float], new_id: Callable[[], str]) -> None:
        """Set the clocks: `clock` in monotonic seconds, `wall` in seconds since the epoch."""
        self.clock = clock
        self._wall = wall
        self._new_id = new_id

    def __call__(self, scope: Scope, route: str | None = None) -> Exchange:
        """Open the exchange of one request; `route` is its path's template, where its path is another."""
        return self.open(route or scope["path"], server_span(scope), callers_request_id(scope))

    def open(self, route: str, span: Span, client_request_id: str | None = None) -> Exchange:
        """Open the exchange of what came by a route, or comes from the outbox."""
        return Exchange(
            request_id=self._new_id(),
            client_request_id=client_request_id,
            route=route,
            received_at=self.clock(),
            received_wall_s=self._wall(),
            span=span,
            clock=self.clock,
        )

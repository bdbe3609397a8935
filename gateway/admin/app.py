"""The admin listener's application: a table of routes, each with the role it takes. What is not in it is not there."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from gateway.admin.access import Access
from gateway.api.request_headers import read_headers
from gateway.policies.document import MAX_DOCUMENT_BYTES
from gateway.principal import Role
from gateway.records.denials import Denied
from inference_protocol.errors import InternalError, MalformedBody, MethodNotAllowed, TidegateError, UnknownRoute
from serving.answers import error_body, error_headers, send_json, send_whole
from serving.crashes import CRASHED, log_crash
from serving.http_request import read_body

# A document as a JSON string, with its escapes.
_MAX_BODY_BYTES = 2 * MAX_DOCUMENT_BYTES
_BODY_TIMEOUT_S = 30.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was let in.

    Attributes:
        who: The caller's id.
        body: What was sent with it; empty for GET.
    """

    who: str
    body: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """An answer that is no JSON."""

    body: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that can be asked.

    Attributes:
        method: GET looks and takes an auditor; POST changes something and takes an operator.
        handle: Returns what is answered, a document or else values for JSON; raises `TidegateError`.
    """

    method: str
    path: str
    handle: Callable[[Call], Awaitable[Any]]

    @property
    def role(self) -> Role:
        """What a caller must be."""
        return Role.AUDITOR if self.method == "GET" else Role.OPERATOR


class AdminApp:
    """Serves the routes, as plain ASGI."""

    def __init__(self, access: Access, routes: Sequence[Route], denied: Denied) -> None:
        """Serve these routes to those whom `access` admits; `denied` is told of the others."""
        self._denied = denied
        self._access = access
        self._routes = {(route.method, route.path): route for route in routes}
        self._paths = {route.path for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", "it is served without a lifespan and without web sockets"
        try:
            answer = await self._answer(scope, receive)
        except ClientDisconnect:
            return
        except TidegateError as exc:
            await send_json(send, exc.http_status, error_body(exc, None), error_headers(exc))
            return
        except Exception as exc:
            log_crash(_logger, f"admin call {scope['path']}", exc)
            error = InternalError(CRASHED)
            await send_json(send, error.http_status, error_body(error, None))
            return
        if isinstance(answer, Document):
            await send_whole(send, 200, answer.body, {"content-type": answer.media_type})
        else:
            await send_json(send, 200, orjson.dumps(answer))

    async def _answer(self, scope: Scope, receive: Receive) -> Any:
        route = self._routes.get((scope["method"], scope["path"]))
        # Whoever is not let in learns nothing of what there is.
        role = route.role if route is not None else Role.AUDITOR
        try:
            who = await self._access.admit(read_headers(scope), role)
        except TidegateError as exc:
            self._denied(scope, exc)
            raise
        if route is None:
            if scope["path"] in self._paths:
                raise MethodNotAllowed("This path takes another method.")
            raise UnknownRoute("There is no such path.")
        if route.method == "GET":
            return await route.handle(Call(who))
        raw = await read_body(scope, receive, max_bytes=_MAX_BODY_BYTES, timeout_s=_BODY_TIMEOUT_S)
        return await route.handle(Call(who, _body(raw)))


def _body(raw: bytes) -> dict[str, Any]:
    if not raw:
        return {}
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise MalformedBody("The body must be a JSON object.", param="body")
    return body

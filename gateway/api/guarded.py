"""Default deny: whatever the framework serves, or says of what there is, is for callers alone, but for a short list."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.api.request_headers import read_headers
from gateway.identity import Identity
from gateway.principal import Principal, Role
from gateway.records.denials import Denied
from inference_protocol.errors import TidegateError
from serving.answers import error_body_at, error_headers, send_json

_PRINCIPAL = "tidegate.principal"


class Guarded:
    """Lets callers through who may ask models; a route that is added later is theirs alone without a word of it."""

    def __init__(self, app: ASGIApp, identity: Identity, *, open_paths: Collection[str], denied: Denied) -> None:
        """Guard `app`; everybody may ask for `open_paths`, letter by letter, and `denied` is told of the others."""
        self._denied = denied
        self._app = app
        self._identity = identity
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["path"] not in self._open_paths:
            try:
                scope[_PRINCIPAL] = await self._identity.admit(read_headers(scope), Role.INFERENCE)
            except TidegateError as exc:
                self._denied(scope, exc)
                await send_json(send, exc.http_status, error_body_at(scope["path"], exc, None), error_headers(exc))
                return
        await self._app(scope, receive, send)


def principal_of(scope: Scope) -> Principal:
    """Return the caller that was let through."""
    found: Principal = scope[_PRINCIPAL]
    return found

"""One bearer token in front of a runtime that others can reach."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from inference_protocol import headers
from inference_protocol.errors import AuthenticationFailed
from serving.http_request import bearer_token, header


class BearerAuth:
    """Pure ASGI middleware that lets no request through without the token, except to probes."""

    def __init__(self, app: ASGIApp, token: str, *, open_paths: Collection[str]) -> None:
        """Wrap `app`.

        Args:
            app: The ASGI application.
            token: What callers must send as `authorization: Bearer …`.
            open_paths: Exact paths that need none.
        """
        self._app = app
        self._digest = _digest(token)
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request.

        Raises:
            AuthenticationFailed: The token is missing or another.
        """
        if scope["type"] == "http" and scope["path"] not in self._open_paths:
            given = bearer_token(header(scope, headers.AUTHORIZATION))
            # Digests have one length, so the time the comparison takes tells nothing of the token's.
            if given is None or not hmac.compare_digest(_digest(given), self._digest):
                raise AuthenticationFailed(
                    "Send the runtime's token as `authorization: Bearer <token>`.", param=headers.AUTHORIZATION
                )
        await self._app(scope, receive, send)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()

"""What stands between a program on this machine and the web pages in its browser.

A page may connect to any address from here. Two things tell it apart from a program, and no browser lets a page change
them: the `Origin` that it asks from, which must be a listed one, and the `Host` that it asks for, which is its own name
where that was made to lead to this machine (DNS rebinding).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inference_protocol.errors import InvalidHeader, MisdirectedRequest, PermissionDenied, TidegateError
from serving.answers import error_body, error_headers, send_head, send_json
from serving.listener import is_loopback

# A name, or an address, and a port: nothing that a path, a query or a user could begin in (RFC 9110 §7.2).
_HOST = re.compile(rb"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_FIELD_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~ ,-]{1,4096}")
_OF_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "[::1]"})
_MOST_REMEMBERED = 64
_METHODS = b"GET, POST, DELETE"
_PREFLIGHT_S = b"600"


class Pages(NamedTuple):
    """What is let in.

    Attributes:
        hosts: Names to ask for; `None` where any will do.
        origins: Of pages, letter by letter.
        exposed: Header fields of answers that pages may read.
    """

    hosts: frozenset[str] | None
    origins: frozenset[str] = frozenset()
    exposed: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, listen_host: str, hosts: Collection[str], origins: Collection[str], exposed: Collection[str] = ()
    ) -> Pages:
        """Return what is let in at an address: where only this machine reaches it, its own names and those given."""
        named = frozenset(host.lower() for host in hosts)
        if is_loopback(listen_host):
            shown = f"[{listen_host}]" if ":" in listen_host else listen_host
            return cls(named | _OF_THIS_MACHINE | {shown.lower()}, frozenset(origins), tuple(exposed))
        return cls(named or None, frozenset(origins), tuple(exposed))


def _nobody_asks(_scope: Scope, _error: TidegateError) -> None:
    return


class WebGuard:
    """Lets requests through to an application, or refuses them before anything else reads them."""

    def __init__(
        self, app: ASGIApp, pages: Pages, denied: Callable[[Scope, TidegateError], None] = _nobody_asks
    ) -> None:
        """Guard `app`; `denied` is told of each request that is refused."""
        self._denied = denied
        self._app = app
        self._pages = pages
        self._origins = {origin.encode("ascii") for origin in pages.origins}
        self._exposed = ", ".join(pages.exposed).encode("ascii")
        self._known_hosts: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            origin = self._origin(scope)
        except TidegateError as exc:
            self._denied(scope, exc)
            await send_json(send, exc.http_status, error_body(exc, None), error_headers(exc))
            return
        if origin is None:
            await self._app(scope, receive, send)
            return
        asked_for = _field(scope, b"access-control-request-method")
        if scope["method"] == "OPTIONS" and asked_for is not None:
            await self._answer_preflight(scope, send, origin)
            return

        async def send_to_page(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self._to_page(origin)]}
            await send(message)

        await self._app(scope, receive, send_to_page)

    def _origin(self, scope: Scope) -> bytes | None:
        """Check whom the request is for, and return the page that it is from.

        Raises:
            InvalidHeader: It does not say for whom, or says it twice.
            MisdirectedRequest: For somebody else.
            PermissionDenied: From a page that may not ask here.
        """
        hosts, origins = [], []
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origins.append(value)
        if len(hosts) != 1 and not (not hosts and scope.get("http_version") == "1.0"):
            raise InvalidHeader("Send one `Host`.", param="host")
        if hosts and hosts[0] not in self._known_hosts:
            self._check_host(hosts[0])
        if not origins:
            return None
        if len(origins) > 1 or origins[0] not in self._origins:
            raise PermissionDenied(
                "Web pages of this origin may not ask here: see `cors_origins` of this address in the settings."
            )
        return bytes(origins[0])

    def _check_host(self, host: bytes) -> None:
        found = _HOST.fullmatch(host)
        if found is None:
            raise InvalidHeader("`Host` must be a name or an address, and a port.", param="host")
        allowed = self._pages.hosts
        if allowed is not None and found[1].decode("ascii").lower() not in allowed:
            raise MisdirectedRequest(
                "Nothing is served here under this name: see `hosts` of this address in the settings.", param="host"
            )
        if len(self._known_hosts) < _MOST_REMEMBERED:
            self._known_hosts.add(host)

    async def _answer_preflight(self, scope: Scope, send: Send, origin: bytes) -> None:
        """Let the page send what it asks to send: its origin is trusted, and every field is checked when it comes."""
        wanted = _field(scope, b"access-control-request-headers") or b""
        fields = dict(self._to_page(origin))
        fields[b"access-control-allow-methods"] = _METHODS
        fields[b"access-control-max-age"] = _PREFLIGHT_S
        if _FIELD_NAMES.fullmatch(wanted):
            fields[b"access-control-allow-headers"] = wanted
        if _field(scope, b"access-control-request-private-network") == b"true":
            fields[b"access-control-allow-private-network"] = b"true"
        await send_head(send, 204, {name.decode("latin-1"): value.decode("latin-1") for name, value in fields.items()})
        await send({"type": "http.response.body", "body": b""})

    def _to_page(self, origin: bytes) -> list[tuple[bytes, bytes]]:
        fields = [(b"access-control-allow-origin", origin), (b"vary", b"origin")]
        return [*fields, (b"access-control-expose-headers", self._exposed)] if self._exposed else fields


def _field(scope: Scope, wanted: bytes) -> bytes | None:
    found: bytes | None = next((value for name, value in scope["headers"] if name == wanted), None)
    return found

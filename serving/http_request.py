"""What is read of an HTTP request, over bare ASGI: a header, its id, its bearer token, the body within bounds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from inference_protocol import headers
from inference_protocol.errors import BodyTooLarge, InvalidHeader, RequestTimeout, UnsupportedEncoding

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_LENGTH = re.compile(r"[0-9]{1,19}")


def header(scope: Scope, name: str) -> str | None:
    """Return the first header of that lower-case name."""
    wanted = name.encode("ascii")
    value: bytes | None = next((value for key, value in scope["headers"] if key == wanted), None)
    return None if value is None else value.decode("latin-1")


def callers_request_id(scope: Scope) -> str | None:
    """Return the caller's `x-request-id`, if it is safe to repeat in headers and logs."""
    given = header(scope, headers.REQUEST_ID)
    return given if given is not None and _REQUEST_ID.fullmatch(given) else None


def bearer_token(authorization: str | None) -> str | None:
    """Return the token of an `authorization: Bearer …` header; `None` where there is none, or another scheme."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _take_freely(_: int) -> None:
    """Where bodies together have no bound."""


async def read_body(
    scope: Scope,
    receive: Receive,
    *,
    max_bytes: int,
    timeout_s: float,
    take: Callable[[int], None] = _take_freely,
) -> bytes:
    """Read the whole body.

    Args:
        scope: Of the request.
        receive: Gives its body.
        max_bytes: The largest that is taken.
        timeout_s: For the whole of it.
        take: Is told of bytes as they come, before they are kept; may raise. What a head merely announces counts for
            nothing, or few callers could take all there is by a word.

    Raises:
        UnsupportedEncoding: It is compressed.
        BodyTooLarge: It is announced as, or turns out, larger than `max_bytes`.
        InvalidHeader: Its length is no number.
        RequestTimeout: It has not come within `timeout_s`.
        ClientDisconnect: The client hung up before its end.
    """
    _check_head(scope, max_bytes)
    pieces: list[bytes] = []
    length = 0
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                piece = message.get("body", b"")
                length += len(piece)
                if length > max_bytes:
                    raise _too_large(max_bytes)
                take(len(piece))
                pieces.append(piece)
                if not message.get("more_body", False):
                    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    except TimeoutError:
        raise RequestTimeout(f"The body did not arrive within {timeout_s:g} seconds.", param="body") from None


def _check_head(scope: Scope, max_bytes: int) -> None:
    encoding = (header(scope, "content-encoding") or "").strip().lower()
    if encoding not in {"", "identity"}:
        raise UnsupportedEncoding("The body must not be compressed: send it without `content-encoding`.")
    announced = header(scope, "content-length")
    if announced is None:
        return
    if not _LENGTH.fullmatch(announced):
        raise InvalidHeader("`content-length` must be a number.", param="content-length")
    if int(announced) > max_bytes:
        raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {max_bytes} bytes.", param="body", details={"limit_bytes": max_bytes})

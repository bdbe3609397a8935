"""What is read of an HTTP request, over bare ASGI: headers, its id, and the body within bounds."""

from __future__ import annotations

import asyncio
import re
import uuid

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from inference_protocol import headers
from inference_protocol.errors import BodyTooLarge, InvalidRequest, UnsupportedEncoding

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def header(scope: Scope, name: str) -> str | None:
    """Return the first header of that lower-case name."""
    wanted = name.encode("ascii")
    value: bytes | None = next((value for key, value in scope["headers"] if key == wanted), None)
    return None if value is None else value.decode("latin-1")


def request_id(scope: Scope) -> str:
    """Return the caller's `x-request-id`, or a new one where there is none that is safe to repeat in logs."""
    given = header(scope, headers.REQUEST_ID)
    return given if given is not None and _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


async def read_body(scope: Scope, receive: Receive, *, max_bytes: int, timeout_s: float) -> bytes:
    """Read the whole body.

    Raises:
        UnsupportedEncoding: It is compressed.
        BodyTooLarge: It is announced as, or turns out, larger than `max_bytes`.
        InvalidRequest: It has not come within `timeout_s`.
        ClientDisconnect: The client hung up.
    """
    encoding = header(scope, "content-encoding")
    if encoding is not None and encoding.strip().lower() != "identity":
        raise UnsupportedEncoding("The body must not be compressed: send it without `content-encoding`.")
    too_large = BodyTooLarge(f"The body may hold {max_bytes} bytes.")
    announced = header(scope, "content-length")
    if announced is not None and announced.isdecimal() and int(announced) > max_bytes:
        raise too_large
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
                    raise too_large
                pieces.append(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError:
        raise InvalidRequest(f"The body did not arrive within {timeout_s:g} seconds.") from None

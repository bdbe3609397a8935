"""Taking a request's head and body in, within bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.types import Message, Scope

from inference_protocol import headers as header
from inference_protocol.errors import BodyTooLarge, InvalidHeader, UnsupportedEncoding

Receive = Callable[[], Awaitable[Message]]


class ClientGone(Exception):
    """The caller hung up."""


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name, without those that only we may set.

    A header that comes twice is joined by a comma, so that what wants one value refuses it instead of picking one.
    """
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1")
        if name.startswith(header.OWN_PREFIX):
            continue
        value = raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


async def read_body(headers: Mapping[str, str], receive: Receive, limit: int) -> bytes:
    """Read the whole body.

    Raises:
        BodyTooLarge: It is larger than `limit`, by its own word or in truth.
        UnsupportedEncoding: It is compressed.
        InvalidHeader: Its length is no number.
        ClientGone: The caller hung up before its end.
    """
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise UnsupportedEncoding(f"Content-Encoding {encoding[:40]!r} is not accepted; send the body as it is.")
    announced = headers.get("content-length")
    if announced is not None:
        if not announced.isascii() or not announced.isdigit():
            raise InvalidHeader("`content-length` must be a number.", param="content-length")
        if int(announced) > limit:
            raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        parts.append(chunk)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def until_gone(receive: Receive) -> None:
    """Return when the caller hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {limit} bytes.", param="body", details={"limit_bytes": limit})

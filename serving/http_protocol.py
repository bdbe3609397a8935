"""HTTP/1.1 as uvicorn parses it, with the bounds it does not set on what comes before a body.

A head may be so long and take so long; what cannot be read is answered in the shape of every other error. An offer to
speak another protocol (`Upgrade: h2c`, which curl and Java's client make) is passed over, as RFC 9110 §7.8 allows, and
the request is taken as the HTTP/1.1 that it is.

A client of HTTP/1.0 gets no chunks. What is neither that nor HTTP/1.1, as a line without a version, is no request.

Fields after a chunked body are refused: headers have been read by then, so that what such a field says of the request,
its privacy class among it, would be passed over in silence.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from inference_protocol.errors import HeadTooLarge, InvalidRequest, TidegateError
from serving.answers import error_body
from serving.joined_writes import JoinedWrites
from serving.server_tls import lets_in
from serving.unchunked import Unchunked

MAX_HEAD_BYTES = 64 << 10
HEAD_TIMEOUT_S = 10.0
_VERSIONS = frozenset({"1.0", "1.1"})
_OF_THE_UPGRADE = frozenset({b"connection", b"upgrade", b"http2-settings"})


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. A head that is too long or too slow ends it."""

    _is_stranger = False
    _head_bytes = 0
    _in_head = True
    _refusal: InvalidRequest | None = None
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection; its first head is due."""
        # uvloop's transports are none of asyncio's by type.
        joined = JoinedWrites(cast("asyncio.Transport", transport), self.loop)
        super().connection_made(joined)  # type: ignore[arg-type]  # it stands for one
        if lets_in(transport.get_extra_info("ssl_object")):
            self._await_head()
        else:
            self._is_stranger = True
            cast("asyncio.Transport", transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        if self._is_stranger:
            return
        self._unset_keepalive_if_required()
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._go_on_without_upgrade(data[exc.args[0] :])
        except httptools.HttpParserError:
            self._refuse(InvalidRequest("This is no HTTP request that can be read."))
            return
        if self._refusal is not None:
            self._refuse(self._refusal)
            return
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(HeadTooLarge(f"The head of the request is longer than {MAX_HEAD_BYTES} bytes."))

    def on_message_begin(self) -> None:
        """A further request on this connection begins."""
        super().on_message_begin()
        if not self._in_head:
            self._head_bytes = 0
            self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head; any after the body ends the request."""
        if self._in_head:
            super().on_header(name, value)
        else:
            self._refusal = InvalidRequest("Fields after the body (trailers) are not read: send them in the head.")

    def on_headers_complete(self) -> None:
        """The head is there; one that offers an upgrade comes again without the offer."""
        if self.parser.should_upgrade():
            return
        self._in_head = False
        self._head_came()
        version = self.parser.get_http_version()
        if version not in _VERSIONS:
            self._refusal = InvalidRequest("This is a request neither of HTTP/1.1, nor of HTTP/1.0.")
            return
        super().on_headers_complete()
        if version == "1.0":
            self.cycle.transport = Unchunked(self.cycle.transport)  # type: ignore[assignment]  # it stands for one

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if self._refusal is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The body is there."""
        if not self.parser.should_upgrade() and self._refusal is None:
            super().on_message_complete()

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in self.headers if name not in _OF_THE_UPGRADE]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join([*lines, b"", b""]) + rest)

    def _await_head(self) -> None:
        self._in_head = True
        self._head_came()
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, error: TidegateError) -> None:
        body = error_body(error, None)
        status = HTTPStatus(error.http_status)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()

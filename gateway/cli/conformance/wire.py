"""HTTP/1.1 over a bare socket: what a well-kept client would put right, or hide, is what is looked at here."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gateway.cli.conformance.findings import Violation
from inference_protocol import paths
from inference_protocol.errors import UpstreamProtocol
from inference_protocol.sse import SseDecoder, SseFrame

_PIECE_BYTES = 1 << 16
_MAX_ANSWER_BYTES = 64 << 20
_BODILESS = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, its framing undone.

    Attributes:
        fields: Names in lower case, in the order they came.
        ends: How its end was marked: `length`, `chunks` or `close`.
    """

    status: int
    fields: tuple[tuple[str, str], ...]
    body: bytes
    ends: str

    def field(self, name: str) -> str | None:
        """The first field of that name, which is in lower case."""
        return next((value for each, value in self.fields if each == name), None)

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            Violation: It is none.
        """
        try:
            return json.loads(self.body)
        except ValueError:
            raise Violation(f"the body of the {self.status} is no JSON: {self.body[:60]!r}") from None

    def frames(self) -> list[SseFrame]:
        """The events of a stream, comments left out.

        Raises:
            Violation: An event is too large to be one.
        """
        decoder = SseDecoder()
        try:
            frames = [*decoder.feed(self.body), *decoder.close()]
        except UpstreamProtocol:
            raise Violation("an event of the stream is larger than a mebibyte") from None
        return [frame for frame in frames if frame.data is not None]


class Connection:
    """One connection, on which answers are read in turn. Each wait for an answer is bounded."""

    def __init__(self, sock: socket.socket, patience_s: float) -> None:
        """Take over a connected socket."""
        self._sock = sock
        self._patience_s = patience_s
        self._buffer = b""
        self._due = 0.0

    def send(self, data: bytes) -> None:
        """Send all of it, or as much as the other side takes: one that refuses early may not read the rest."""
        self._sock.settimeout(self._patience_s)
        with contextlib.suppress(ConnectionError, TimeoutError, ssl.SSLError):
            self._sock.sendall(data)

    def some(self) -> bytes:
        """Whatever comes next; nothing at the end.

        Raises:
            Violation: Nothing comes in time.
        """
        self._due = time.monotonic() + self._patience_s
        return self._receive()

    def reply(self, *, to_head: bool = False) -> Reply:
        """Read one answer, to the end of its body.

        Raises:
            Violation: It does not come in time, breaks off, or cannot be read.
        """
        self._due = time.monotonic() + self._patience_s
        status, fields = self._head()
        while status < 200:
            status, fields = self._head()
        of = dict(reversed(fields))
        if to_head or status in _BODILESS:
            return Reply(status, fields, b"", "length")
        if "chunked" in of.get("transfer-encoding", "").lower():
            return Reply(status, fields, b"".join(self._chunks()), "chunks")
        if (length := of.get("content-length")) is not None:
            return Reply(status, fields, self._exactly(_number(length, 10, "content-length")), "length")
        return Reply(status, fields, self._rest(), "close")

    def refusal(self) -> int | None:
        """The status with which a request is refused that cannot be read; `None` where it is hung up on without a word.

        Raises:
            Violation: Neither happens in time, or it is accepted.
        """
        try:
            status = self.reply().status
        except ClosedError:
            return None
        if not 400 <= status < 500:
            raise Violation(f"it is answered with {status} and not refused")
        return status

    def trickle(self, byte: bytes, every_s: float) -> None:
        """Send a byte now and then until the other side says something or hangs up.

        Raises:
            Violation: It does neither in time.
        """
        until = time.monotonic() + self._patience_s
        while time.monotonic() < until:
            self.send(byte)
            self._sock.settimeout(every_s)
            try:
                self._sock.recv(_PIECE_BYTES)
            except TimeoutError:
                continue
            except (ConnectionError, ssl.SSLError):
                pass
            return
        raise Violation(f"after {self._patience_s:g} s it is still waited for")

    def _head(self) -> tuple[int, tuple[tuple[str, str], ...]]:
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1."):
            raise Violation(f"the answer does not begin like HTTP/1.1: {first[:60]!r}")
        pairs = (line.partition(":") for line in lines)
        return _number(rest[:3], 10, "status"), tuple((name.lower(), value.strip()) for name, _, value in pairs)

    def _chunks(self) -> Iterator[bytes]:
        while size := _number(self._until(b"\r\n").split(b";")[0].decode("latin-1"), 16, "size of a chunk"):
            yield self._exactly(size)
            if self._exactly(2) != b"\r\n":
                raise Violation("a chunk of the body is longer than it says")
        while self._until(b"\r\n"):
            pass

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._take()
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._take()
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def _rest(self) -> bytes:
        with contextlib.suppress(ClosedError):
            while True:
                self._take()
        return self._buffer

    def _take(self) -> None:
        piece = self._receive()
        if not piece:
            raise ClosedError("the connection is closed in the middle of an answer" if self._buffer else "no answer")
        self._buffer += piece
        if len(self._buffer) > _MAX_ANSWER_BYTES:
            raise Violation(f"the answer is larger than {_MAX_ANSWER_BYTES >> 20} MiB")

    def _receive(self) -> bytes:
        try:
            self._sock.settimeout(max(0.001, self._due - time.monotonic()))
            return self._sock.recv(_PIECE_BYTES)
        except TimeoutError:
            raise Violation(f"nothing more comes in {self._patience_s:g} s") from None
        except (ConnectionError, ssl.SSLError):
            return b""


class ClosedError(Violation):
    """The other side hung up before an answer was whole."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway under test, and how it is asked.

    Attributes:
        url: Without `/v1`.
        patience_s: How long an answer may take, and a request that stalls may be waited for.
    """

    url: str
    key: str | None
    model: str
    patience_s: float

    @contextlib.contextmanager
    def connected(self) -> Iterator[Connection]:
        """A connection of its own, closed at the end of the block."""
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        host = parts.hostname or "127.0.0.1"
        with socket.create_connection((host, parts.port or (443 if secure else 80)), self.patience_s) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not secure:
                yield Connection(plain, self.patience_s)
                return
            with ssl.create_default_context().wrap_socket(plain, server_hostname=host) as wrapped:
                yield Connection(wrapped, self.patience_s)

    def head(self, method: str, path: str, *lines: str) -> bytes:
        """The bytes of a head; `lines` are its further fields."""
        parts = urlsplit(self.url)
        fields = [f"{method} {parts.path}{path} HTTP/1.1", f"host: {parts.netloc}", *lines]
        if self.key is not None:
            fields.append(f"authorization: Bearer {self.key}")
        return "\r\n".join([*fields, "", ""]).encode("latin-1")

    def chat(self, *lines: str) -> bytes:
        """The head of a chat request."""
        return self.head("POST", paths.CHAT_COMPLETIONS, "content-type: application/json", *lines)

    def body(self, **fields: Any) -> bytes:
        """A short chat request; `fields` are put in, or left out where they are `...`."""
        usual = {"model": self.model, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 16}
        return json.dumps({k: v for k, v in (usual | fields).items() if v is not ...}).encode()

    def asked(self, *lines: str, **fields: Any) -> bytes:
        """A whole chat request."""
        return self.sent(self.body(**fields), *lines)

    def sent(self, body: bytes, *lines: str) -> bytes:
        """A whole chat request with this body."""
        return self.chat(f"content-length: {len(body)}", *lines) + body

    def reply(self, raw: bytes, *, to_head: bool = False) -> Reply:
        """Send bytes on a connection of their own and read the answer."""
        with self.connected() as connection:
            connection.send(raw)
            return connection.reply(to_head=to_head)

    def ask(self, **fields: Any) -> Reply:
        """Send a chat request and read the answer, whatever it is."""
        return self.reply(self.asked(**fields))

    def refusal(self, raw: bytes) -> int | None:
        """Send bytes that are to be refused; `Connection.refusal` says what comes back."""
        with self.connected() as connection:
            connection.send(raw)
            return connection.refusal()

    def answer(self, **fields: Any) -> Any:
        """Send a chat request that must be answered, and return the document.

        Raises:
            Violation: It is not.
        """
        reply = self.ask(**fields)
        if reply.status != 200:
            raise Violation(f"an ordinary request is answered with {reply.status}: {reply.body[:120]!r}")
        return reply.json()

    def stream(self, **fields: Any) -> Reply:
        """Send a chat request that must be answered with a stream, and read it to its end.

        Raises:
            Violation: It is not.
        """
        reply = self.ask(stream=True, **fields)
        if reply.status != 200:
            raise Violation(f"an ordinary request for a stream is answered with {reply.status}: {reply.body[:120]!r}")
        return reply


def chunks_of(reply: Reply) -> list[Mapping[str, Any]]:
    """The documents of a stream's events, `[DONE]` left out.

    Raises:
        Violation: One is no JSON object.
    """
    found: list[Mapping[str, Any]] = []
    for frame in reply.frames():
        if frame.is_done:
            continue
        try:
            chunk = json.loads(frame.data or b"")
        except ValueError:
            raise Violation(f"an event is no JSON: {(frame.data or b'')[:60]!r}") from None
        if not isinstance(chunk, dict):
            raise Violation("an event is no JSON object")
        found.append(chunk)
    return found


def _number(text: str, base: int, what: str) -> int:
    try:
        return int(text.strip(), base)
    except ValueError:
        raise Violation(f"the {what} of the answer is no number: {text[:20]!r}") from None

"""One kept answer: written by whoever has it made, read by any number of readers, as it comes or later.

It stands where the caller's connection would stand (`send`). Of a stream each event with data gets a number, so that a
reader can go on where another was cut off; comments are not kept, since each reader is sent its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import orjson
from starlette.types import Message

from gateway.state.sealing import Sealer
from inference_protocol.sse import SseDecoder, SseFrame

_ID_LINE = re.compile(rb"^id(?::[^\r\n]*)?(?:\r\n|\n|\r)", re.MULTILINE)
_STREAM = b"text/event-stream"

RawHeaders = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an answer, as ASGI has it."""

    status: int
    headers: RawHeaders

    @property
    def is_stream(self) -> bool:
        """Whether events follow."""
        return any(name == b"content-type" and value.startswith(_STREAM) for name, value in self.headers)

    def to_bytes(self) -> bytes:
        """Return it on one line."""
        pairs = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self.headers]
        return orjson.dumps([self.status, pairs])

    @classmethod
    def from_bytes(cls, line: bytes) -> Head:
        """Read what `to_bytes` wrote."""
        status, pairs = orjson.loads(line)
        return cls(status, [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs])


def _free(_: int) -> None:
    """Where nobody counts."""


class KeptAnswer:
    """The answer of one request.

    Attributes:
        head: Once it has come.
        is_done: Nothing follows.
        bytes: What is held of it, sealed.
    """

    def __init__(self, sealer: Sealer, take: Callable[[int], None] = _free) -> None:
        """Start with nothing.

        Args:
            sealer: Of this request.
            take: Is told of bytes before they are kept; may raise.
        """
        self.head: Head | None = None
        self.is_done = False
        self.bytes = 0
        self._sealer = sealer
        self._take = take
        self._pieces: list[bytes] = []
        self._decoder = SseDecoder()
        self._more = asyncio.Event()

    @property
    def pieces(self) -> int:
        """How many there are: events of a stream, else parts of the body."""
        return len(self._pieces)

    async def send(self, message: Message) -> None:
        """Take what would be sent to a caller.

        Raises:
            TidegateError: It may not be kept.
        """
        if message["type"] == "http.response.start":
            self.head = Head(message["status"], list(message["headers"]))
            self._tell()
            return
        body = message.get("body", b"")
        assert self.head is not None, "the head comes first"
        if not self.head.is_stream:
            self._add(body)
        else:
            for frame in self._decoder.feed(body):
                self._add_event(frame)

    def close(self) -> None:
        """Say that nothing follows."""
        for frame in self._decoder.close():
            self._add_event(frame)
        self.is_done = True
        self._tell()

    async def read(self, after: int, patience_s: float) -> AsyncIterator[bytes | None]:
        """Yield the pieces after the first `after`, as they come; `None` after each silence of `patience_s`."""
        while True:
            while after < len(self._pieces):
                after += 1
                yield self._sealer.unseal(self._pieces[after - 1], f"piece {after}")
            if self.is_done:
                return
            if not await self._is_more(patience_s):
                yield None

    async def until_begun(self) -> None:
        """Wait for the head of a stream, for the body of another answer, or for the end of one that has neither."""
        while not (self.is_done or (self.head is not None and (self.head.is_stream or self._pieces))):
            await self._is_more(None)

    async def until_done(self) -> None:
        """Wait for the end."""
        while not self.is_done:
            await self._is_more(None)

    def to_bytes(self) -> bytes:
        """Return the whole of a complete answer, not sealed."""
        assert self.head is not None, "it is complete"
        pieces = (self._sealer.unseal(sealed, f"piece {n}") for n, sealed in enumerate(self._pieces, 1))
        return self.head.to_bytes() + b"\n" + b"".join(pieces)

    @classmethod
    def from_bytes(cls, whole: bytes, sealer: Sealer) -> KeptAnswer:
        """Read what `to_bytes` wrote."""
        line, _, body = whole.partition(b"\n")
        found = cls(sealer)
        found.head = Head.from_bytes(line)
        for piece in [frame.raw for frame in SseDecoder().feed(body)] if found.head.is_stream else [body]:
            found._keep(piece)
        found.is_done = True
        return found

    def _add_event(self, frame: SseFrame) -> None:
        if frame.data is not None:
            # Of two `id` lines the last would count, and that is not ours.
            own = _ID_LINE.sub(b"", frame.raw) if b"id" in frame.raw else frame.raw
            self._add(b"id: %d\n" % (len(self._pieces) + 1) + own)

    def _add(self, piece: bytes) -> None:
        if piece:
            self._take(len(piece))
            self._keep(piece)
            self._tell()

    def _keep(self, piece: bytes) -> None:
        sealed = self._sealer.seal(piece, f"piece {len(self._pieces) + 1}")
        self._pieces.append(sealed)
        self.bytes += len(piece)

    def _tell(self) -> None:
        """Wake every reader: each waits for the event that was current as it began to wait."""
        more, self._more = self._more, asyncio.Event()
        more.set()

    async def _is_more(self, patience_s: float | None) -> bool:
        """Wait for anything new; say whether it came in time."""
        try:
            async with asyncio.timeout(patience_s):
                await self._more.wait()
        except TimeoutError:
            return False
        return True

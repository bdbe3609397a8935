"""Server-sent events, incrementally and byte for byte.

Format: the event stream of the WHATWG HTML standard, "Server-sent events". Frames keep their bytes so that a relay can
pass on untouched what it did not need to change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from inference_protocol.errors import UpstreamProtocol

MAX_FRAME_BYTES = 1 << 20
DONE = b"[DONE]"
# A comment, which every client passes over.
PING = b": ping\n\n"
_LONGEST_LINE_END = 2
_LINE_END = re.compile(rb"\r\n|\n|\r")
# The lookahead keeps the two halves of one CRLF from passing for two line ends.
_FRAME_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")


@dataclass(frozen=True, slots=True)
class SseFrame:
    """One event, with the bytes it came as.

    Attributes:
        raw: The frame's bytes, its closing blank line included.
        data: The `data` lines joined by newlines, or `None` where there is none (a comment, a ping).
        event: The `event` field, or `None`.
    """

    raw: bytes
    data: bytes | None
    event: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether this is OpenAI's end-of-stream marker."""
        return self.data is not None and self.data.strip() == DONE


class SseDecoder:
    """Cuts a byte stream into frames, however its chunks fall."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """Start with an empty buffer.

        Args:
            max_frame_bytes: A frame larger than this ends the stream with an error.
        """
        self._buffer = b""
        self._searched = 0  # no frame ends before this offset of the buffer
        self._max = max_frame_bytes
        self._at_start = True

    def feed(self, chunk: bytes) -> list[SseFrame]:
        """Take the next bytes and return the frames they complete.

        Raises:
            UpstreamProtocol: A frame grew past the limit.
        """
        buffer = self._buffer + chunk
        if self._at_start and buffer:
            if b"\xef\xbb\xbf".startswith(buffer[:3]) and len(buffer) < 3:
                self._buffer = buffer
                return []
            buffer = buffer.removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        # A final carriage return may be half of a line end: it waits for its other half.
        held = b"\r" if buffer.endswith(b"\r") else b""
        ready = buffer[: len(buffer) - len(held)]
        frames: list[SseFrame] = []
        start = 0
        for match in _FRAME_END.finditer(ready, self._searched):
            self._check_size(match.end() - start)
            frames.append(_frame(ready[start : match.end()]))
            start = match.end()
        self._buffer = ready[start:] + held
        self._searched = max(0, len(ready) - start - _LONGEST_LINE_END)
        self._check_size(len(self._buffer))
        return frames

    def close(self) -> list[SseFrame]:
        """Return what a stream that ended without its last blank line still holds, with that line put in.

        Relayed as it came, it would run into whatever is sent after it.
        """
        rest, self._buffer, self._searched = self._buffer, b"", 0
        return [_frame(rest.rstrip(b"\r\n") + b"\n\n")] if rest.strip() else []

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._max:
            raise UpstreamProtocol(f"The target sent an event larger than {self._max} bytes.")


def encode_data(payload: bytes) -> bytes:
    """Return one frame carrying `payload`, which must hold no line break."""
    return b"data: " + payload + b"\n\n"


def _frame(raw: bytes) -> SseFrame:
    data: list[bytes] = []
    event: str | None = None
    for line in _LINE_END.split(raw):
        field, colon, value = line.partition(b":")
        if not field:
            continue
        if colon and value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            data.append(value)
        elif field == b"event":
            event = value.decode("utf-8", "replace")
    return SseFrame(raw, b"\n".join(data) if data else None, event)

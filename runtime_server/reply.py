"""Sending the answer to one request, streamed or whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import orjson
from starlette.types import Send

from runtime_server.answer import Piece
from runtime_server.choices import Choices
from runtime_server.openai.envelope import AnswerWriter, timings
from serving.answers import STREAM_HEADERS, send_head, send_json


class Reply:
    """One reply.

    Attributes:
        admitted_ns: Unix nanoseconds at which its generation began.
        first_text_ns: The same of its first text; `None` until then.
    """

    def __init__(
        self,
        choices: Choices,
        writer: AnswerWriter,
        send: Send,
        clock_ns: Callable[[], int],
        fields: Mapping[str, str],
    ) -> None:
        """Send what `writer` makes of `choices`.

        Args:
            choices: The answers.
            writer: Their form.
            send: To the client.
            clock_ns: Unix nanoseconds.
            fields: Of the head, beside those of its form.
        """
        self._choices = choices
        self._fields = fields
        self._writer = writer
        self._send = send
        self._clock_ns = clock_ns
        self.admitted_ns = clock_ns()
        self.first_text_ns: int | None = None

    async def stream(self) -> None:
        """Send text as it comes. The head waits for the first of it, so that until then an error has its own status."""
        started = False
        while not self._choices.finished():
            frames = b"".join([self._frames(index, piece) for index, piece in await self._next()])
            if self._choices.finished():
                frames += self._writer.end(self._choices)
            if not frames:
                continue
            if not started:
                started = True
                await send_head(self._send, 200, {**STREAM_HEADERS, **self._fields})
            more = not self._choices.finished()
            await self._send({"type": "http.response.body", "body": frames, "more_body": more})

    async def whole(self) -> None:
        """Send the answer once it is complete."""
        pieces: dict[int, list[Piece]] = {}
        while not self._choices.finished():
            for index, piece in await self._next():
                pieces.setdefault(index, []).append(piece)
        whole = self._writer.whole(self._choices, [pieces[index] for index in sorted(pieces)])
        await send_json(self._send, 200, whole, self._fields)

    def _frames(self, index: int, piece: Piece) -> bytes:
        frames = self._writer.piece(index, piece)
        answer = self._choices.answers[index]
        if answer.finish_reason is not None:
            frames += self._writer.finish(index, answer, self._last_members())
        return frames

    def _last_members(self) -> bytes:
        """Return what stands beside the choices of the last chunk that has any."""
        if not self._choices.finished():
            return b""
        return b"," + orjson.dumps(timings(self._choices))[1:-1]

    async def _next(self) -> list[tuple[int, Piece]]:
        found = await self._choices.next()
        if self.first_text_ns is None and any(piece.text for _, piece in found):
            self.first_text_ns = self._clock_ns()
        return found

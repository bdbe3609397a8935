"""Chat completions: messages, or deltas of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from inference_protocol import sse
from runtime_server.answer import Answer, Piece
from runtime_server.choices import Choices
from runtime_server.openai.envelope import Envelope
from runtime_server.openai.logprobs import chat_logprobs
from runtime_server.token_spelling import TokenSpelling
from runtime_server.tools.call_reader import CallReader

_CHUNK = "chat.completion.chunk"
_WHOLE = "chat.completion"


class ChatWriter:
    """Writes one answer. What stays the same in each chunk of a stream is written once."""

    def __init__(
        self,
        envelope: Envelope,
        spelling: TokenSpelling,
        *,
        logprobs: bool,
        call_reader: Callable[[], CallReader] | None,
    ) -> None:
        """Fix what is known before the first token.

        Args:
            envelope: Around the choices.
            spelling: Of the model that answers.
            logprobs: Whether they are told.
            call_reader: Makes what reads a choice's text that may hold calls of tools; `None` where none may.
        """
        self._envelope = envelope
        self._spelling = spelling
        self._logprobs = logprobs
        self._call_reader = call_reader
        self._readers: dict[int, CallReader] = {}
        self._begun: set[int] = set()
        self._opening = envelope.opening(_CHUNK)

    def piece(self, index: int, piece: Piece) -> bytes:  # noqa: D102  # see `AnswerWriter`
        deltas = self._deltas(index, piece.text)
        if not deltas and not piece.logprobs:
            return b""
        told = self._told(piece)
        frames = self._begin(index)
        for at, delta in enumerate(deltas or [{"content": ""}]):
            frames += self._chunk(index, orjson.dumps(delta), told if at == 0 else b"null")
        return frames

    def finish(self, index: int, answer: Answer, more: bytes) -> bytes:  # noqa: D102  # see `AnswerWriter`
        reader = self._readers.get(index)
        frames = self._begin(index)
        for delta in reader.close() if reader is not None else []:
            frames += self._chunk(index, orjson.dumps(delta), b"null")
        reason = orjson.dumps(self._finish_reason(answer, reader))
        return frames + self._chunk(index, b"{}", b"null", reason, more)

    def end(self, choices: Choices) -> bytes:  # noqa: D102  # see `AnswerWriter`
        return self._envelope.end(_CHUNK, choices)

    def whole(self, choices: Choices, pieces: list[list[Piece]]) -> bytes:  # noqa: D102  # see `AnswerWriter`
        written = [self._choice(index, answer, pieces[index]) for index, answer in enumerate(choices.answers)]
        return self._envelope.whole(_WHOLE, choices, written)

    def _choice(self, index: int, answer: Answer, pieces: list[Piece]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(piece.text for piece in pieces)}
        reader = None
        if self._call_reader is not None:
            reader = self._call_reader()
            message = reader.message(message["content"])
        logprobs = None
        if self._logprobs:
            told = [each for piece in pieces for each in piece.logprobs]
            logprobs = {"content": chat_logprobs(told, self._spelling), "refusal": None}
        return {
            "index": index,
            "message": {**message, "refusal": None},
            "logprobs": logprobs,
            "finish_reason": self._finish_reason(answer, reader),
        }

    def _deltas(self, index: int, text: str) -> list[dict[str, Any]]:
        if not text:
            return []
        if self._call_reader is None:
            return [{"content": text}]
        if index not in self._readers:
            self._readers[index] = self._call_reader()
        return self._readers[index].feed(text)

    def _told(self, piece: Piece) -> bytes:
        if not self._logprobs:
            return b"null"
        return orjson.dumps({"content": chat_logprobs(piece.logprobs, self._spelling), "refusal": None})

    def _begin(self, index: int) -> bytes:
        if index in self._begun:
            return b""
        self._begun.add(index)
        return self._chunk(index, b'{"role":"assistant","content":""}', b"null")

    def _chunk(self, index: int, delta: bytes, logprobs: bytes, finish: bytes = b"null", more: bytes = b"") -> bytes:
        choice = b'{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b}' % (index, delta, logprobs, finish)
        return sse.encode_data(self._opening + b',"choices":[' + choice + b"]" + more + b"}")

    def _finish_reason(self, answer: Answer, reader: CallReader | None) -> str | None:
        if reader is not None and reader.called and answer.finish_reason == "stop":
            return "tool_calls"
        return answer.finish_reason

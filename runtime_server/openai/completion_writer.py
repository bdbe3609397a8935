"""Completions of text: a prompt's continuation, with the prompt before it where that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from inference_protocol import sse
from runtime_server.answer import Answer, Piece
from runtime_server.choices import Choices
from runtime_server.engine import TokenLogprob
from runtime_server.openai.envelope import Envelope
from runtime_server.openai.logprobs import CompletionLogprobs
from runtime_server.token_spelling import TokenSpelling

_KIND = "text_completion"


@dataclass(frozen=True, slots=True)
class Echo:
    """A prompt that is returned before its continuation."""

    text: str
    first_token: int


class CompletionWriter:
    """Writes one answer, each choice of it as it comes or as a whole."""

    def __init__(self, envelope: Envelope, spelling: TokenSpelling, *, logprobs: bool, echoes: Sequence[Echo]) -> None:
        """Fix what is known before the first token.

        Args:
            envelope: Around the choices.
            spelling: Of the model that answers.
            logprobs: Whether they are told.
            echoes: Of each choice, or none at all.
        """
        self._envelope = envelope
        self._spelling = spelling
        self._logprobs = logprobs
        self._echoes = echoes
        self._begun: dict[int, CompletionLogprobs] = {}
        self._opening = envelope.opening(_KIND)

    def piece(self, index: int, piece: Piece) -> bytes:  # noqa: D102  # see `AnswerWriter`
        if not (piece.text or piece.logprobs or piece.prompt):
            return b""
        return self._chunk(index, *self._said(index, piece), None)

    def finish(self, index: int, answer: Answer, more: bytes) -> bytes:  # noqa: D102  # see `AnswerWriter`
        return self._chunk(index, *self._said(index, Piece()), answer.finish_reason, more)

    def end(self, choices: Choices) -> bytes:  # noqa: D102  # see `AnswerWriter`
        return self._envelope.end(_KIND, choices)

    def whole(self, choices: Choices, pieces: list[list[Piece]]) -> bytes:  # noqa: D102  # see `AnswerWriter`
        written = []
        for index, answer in enumerate(choices.answers):
            text, logprobs = self._said(
                index,
                Piece(
                    "".join(piece.text for piece in pieces[index]),
                    tuple(each for piece in pieces[index] for each in piece.logprobs),
                    tuple(each for piece in pieces[index] for each in piece.prompt),
                ),
            )
            written.append(_choice(index, text, logprobs, answer.finish_reason))
        return self._envelope.whole(_KIND, choices, written)

    def _said(self, index: int, piece: Piece) -> tuple[str, dict[str, Any] | None]:
        """Return a piece's text and log probabilities, the first one's with its prompt's."""
        first = index not in self._begun
        told = self._begun.setdefault(index, CompletionLogprobs(self._spelling))
        echo = self._echoes[index] if first and self._echoes else None
        text = piece.text if echo is None else echo.text + piece.text
        if not self._logprobs:
            return text, None
        tokens: list[TokenLogprob | int] = [
            *([] if echo is None else [echo.first_token]),
            *piece.prompt,
            *piece.logprobs,
        ]
        return text, told.of(tokens) if tokens else None

    def _chunk(
        self, index: int, text: str, logprobs: dict[str, Any] | None, finish: str | None, more: bytes = b""
    ) -> bytes:
        choice = orjson.dumps(_choice(index, text, logprobs, finish))
        return sse.encode_data(self._opening + b',"choices":[' + choice + b"]" + more + b"}")


def _choice(index: int, text: str, logprobs: dict[str, Any] | None, finish: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

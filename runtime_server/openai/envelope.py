"""What every answer of OpenAI's API has around its choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from inference_protocol import sse
from runtime_server.answer import Answer, Piece
from runtime_server.choices import Choices


@dataclass(frozen=True, slots=True)
class Envelope:
    """What is known before the first token.

    Attributes:
        answer_id: `id` of the answer.
        model: The public name.
        created: Unix seconds.
        prompt_tokens: Of all prompts together; several answers to one count it once.
        wants_usage: Whether a stream ends with a chunk of usage.
    """

    answer_id: str
    model: str
    created: int
    prompt_tokens: int
    wants_usage: bool

    def opening(self, kind: str) -> bytes:
        """Return the beginning of a stream's chunk, up to its choices."""
        opening = orjson.dumps(self._same(kind))[:-1]
        # With `include_usage`, each chunk but the last says that it has none.
        return opening + (b',"usage":null' if self.wants_usage else b"")

    def end(self, kind: str, choices: Choices) -> bytes:
        """Return what closes a stream."""
        if not self.wants_usage:
            return sse.encode_data(sse.DONE)
        last = {**self._same(kind), "choices": [], "usage": self._usage(choices), **timings(choices)}
        return sse.encode_data(orjson.dumps(last)) + sse.encode_data(sse.DONE)

    def whole(self, kind: str, choices: Choices, written: list[dict[str, Any]]) -> bytes:
        """Return an answer as one object."""
        return orjson.dumps({**self._same(kind), "choices": written, "usage": self._usage(choices), **timings(choices)})

    def _same(self, kind: str) -> dict[str, Any]:
        return {"id": self.answer_id, "created": self.created, "model": self.model, "object": kind}

    def _usage(self, choices: Choices) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": choices.completion_tokens,
            "total_tokens": self.prompt_tokens + choices.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": choices.cached_tokens},
        }


class AnswerWriter(Protocol):
    """Writes the answer to one request."""

    def piece(self, index: int, piece: Piece) -> bytes:
        """Return the frames of a stream that carry a piece of a choice; none where it says nothing yet."""
        ...

    def finish(self, index: int, answer: Answer, more: bytes) -> bytes:
        """Return the frames that end a choice; `more` are members beside its `choices`."""
        ...

    def end(self, choices: Choices) -> bytes:
        """Return what closes the stream."""
        ...

    def whole(self, choices: Choices, pieces: list[list[Piece]]) -> bytes:
        """Return the answer as one object; `pieces` are those of each choice."""
        ...


def timings(choices: Choices) -> dict[str, Any]:
    """Return the member that says how long each part took."""
    return {"timings": choices.timings.to_wire()}

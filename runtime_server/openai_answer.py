"""An answer as OpenAI's API writes it: one object, or the events of a stream.

Two members are ours: `timings`, on the whole answer and on the last chunk, and `request_id` in errors.
"""

from __future__ import annotations

from typing import Any

import orjson

from inference_protocol import sse
from runtime_server.answer import Answer


class ChatAnswerWriter:
    """Writes one answer. What stays the same in each chunk of a stream is written once."""

    def __init__(self, answer_id: str, *, model: str, created: int, prompt_tokens: int, wants_usage: bool) -> None:
        """Fix what is known before the first token.

        Args:
            answer_id: `id` of the answer.
            model: The public name.
            created: Unix seconds.
            prompt_tokens: Length of the prompt.
            wants_usage: Whether a stream ends with a chunk of usage.
        """
        self._prompt_tokens = prompt_tokens
        self._wants_usage = wants_usage
        self._same = {"id": answer_id, "created": created, "model": model}
        opening = orjson.dumps({**self._same, "object": "chat.completion.chunk"})[:-1]
        # With `include_usage`, each chunk but the last says that it has none.
        self._opening = opening + (b',"usage":null' if wants_usage else b"")
        self._before_text = b"data: " + self._opening + b',"choices":[{"index":0,"delta":{"content":'
        self._after_text = b'},"logprobs":null,"finish_reason":null}]}\n\n'

    def role(self) -> bytes:
        """Return the first chunk of a stream."""
        return self._chunk(b'"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null')

    def text(self, text: str) -> bytes:
        """Return the chunk that carries more text."""
        return self._before_text + orjson.dumps(text) + self._after_text

    def end(self, answer: Answer) -> bytes:
        """Return the last chunks of a stream and the mark that closes it."""
        finish = b'"delta":{},"logprobs":null,"finish_reason":' + orjson.dumps(answer.finish_reason)
        timings = b',"timings":' + orjson.dumps(answer.timings.to_wire())
        if not self._wants_usage:
            return self._chunk(finish, timings) + sse.encode_data(sse.DONE)
        usage = {**self._same, "object": "chat.completion.chunk", "choices": [], "usage": self._usage(answer)}
        last = orjson.dumps(usage)[:-1] + timings + b"}"
        return self._chunk(finish) + sse.encode_data(last) + sse.encode_data(sse.DONE)

    def whole(self, answer: Answer, text: str) -> bytes:
        """Return the answer as one object."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return orjson.dumps(
            {
                **self._same,
                "object": "chat.completion",
                "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}],
                "usage": self._usage(answer),
                "timings": answer.timings.to_wire(),
            }
        )

    def _chunk(self, choice: bytes, more: bytes = b"") -> bytes:
        return sse.encode_data(self._opening + b',"choices":[{"index":0,' + choice + b"}]" + more + b"}")

    def _usage(self, answer: Answer) -> dict[str, Any]:
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "total_tokens": self._prompt_tokens + answer.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        }

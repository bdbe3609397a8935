"""Answers of targets that were sent pseudonyms, as the caller is to see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson

from gateway.answer import Answer, BufferedAnswer, StreamedAnswer
from gateway.dispatch.restore import AnswerRestorer, Restoration
from gateway.dispatch.upstream import parse_answer
from inference_protocol import sse
from inference_protocol.errors import TidegateError
from inference_protocol.request import InferenceRequest
from inference_protocol.sse import SseDecoder, SseFrame


def restored(answer: Answer, originals: Mapping[str, str], request: InferenceRequest) -> Answer:
    """Return an answer with values where it holds tokens; `originals` says which, and may be empty."""
    if not originals:
        return answer
    restorer = AnswerRestorer(Restoration(originals, content_is_json=request.needs.schema))
    if isinstance(answer, BufferedAnswer):
        return BufferedAnswer(_restored_body(answer.body, restorer), answer.facts)
    return RestoredStream(answer, restorer)


class RestoredStream:
    """A streamed answer whose tokens become values again on their way to the caller."""

    def __init__(self, answer: StreamedAnswer, restorer: AnswerRestorer) -> None:
        """Wrap an answer that has committed and of which nothing was relayed yet."""
        self.facts = answer.facts
        self._answer = answer
        self._restorer = restorer
        self._envelope: dict[str, Any] = {}

    async def relay(self) -> AsyncIterator[bytes]:
        """Yield the bytes to send on.

        Raises:
            TidegateError: As the answer's own `relay`; what was held back has been sent by then.
        """
        decoder = SseDecoder()
        try:
            async for data in self._answer.relay():
                if out := b"".join(self._restored(frame) for frame in decoder.feed(data)):
                    yield out
        except TidegateError:
            if rest := self._rest():
                yield rest
            raise

    async def aclose(self) -> None:
        """Let the connection go."""
        await self._answer.aclose()

    def _restored(self, frame: SseFrame) -> bytes:
        if frame.data is None:
            return frame.raw
        if frame.is_done:
            return self._rest() + frame.raw
        chunk = parse_answer(frame.data)
        self._envelope = {key: chunk[key] for key in ("id", "object", "created", "model") if key in chunk}
        self._restorer.restore(chunk)
        return sse.encode_data(orjson.dumps(chunk))

    def _rest(self) -> bytes:
        choices = self._restorer.rest()
        return sse.encode_data(orjson.dumps({**self._envelope, "choices": choices})) if choices else b""


def _restored_body(body: bytes, restorer: AnswerRestorer) -> bytes:
    tree = parse_answer(body)
    restorer.restore(tree)
    return orjson.dumps(tree)

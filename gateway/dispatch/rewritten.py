"""Answers whose texts are rewritten on their way to the caller: tokens to values, and what a policy withholds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import orjson

from gateway.answer import Answer, BufferedAnswer, StreamedAnswer
from gateway.dispatch.answer_scan import AnswerScan
from gateway.dispatch.answer_texts import AnswerTexts
from gateway.dispatch.restore import Restoration
from gateway.dispatch.upstream import parse_answer
from gateway.off_loop import READ_BYTES, off_loop_if_large
from inference_protocol import sse
from inference_protocol.errors import AnswerWithheld, TidegateError
from inference_protocol.request import InferenceRequest
from inference_protocol.sse import SseDecoder, SseFrame
from routing_policies.policy.model import Answers, AnswerScanning
from routing_policies.signals.scanner import Scanner

Closing = Callable[[], Mapping[str, Any]]
"""What the last event, or the whole answer, holds beside the texts."""


def restored(answer: Answer, originals: Mapping[str, str], request: InferenceRequest) -> Answer:
    """Return an answer with values where it holds tokens; `originals` says which, and may be empty."""
    if not originals:
        return answer
    texts = AnswerTexts(Restoration(originals, content_is_json=request.needs.schema).channel)
    if isinstance(answer, BufferedAnswer):
        return BufferedAnswer(_rewritten(answer.body, texts, dict), answer.facts)
    return RewrittenStream(answer, texts)


async def scanned(answer: Answer, rules: Answers, scanner: Scanner) -> Answer:
    """Return an answer as the policy lets the caller see it; what is found is noted in its facts.

    Raises:
        AnswerWithheld: It came whole, something is in it, and the policy stops such answers.
    """
    if rules.scan is AnswerScanning.OFF:
        return answer
    scan = AnswerScan(rules, scanner, answer.facts.findings)
    texts = AnswerTexts(scan.channel, keeps_logprobs=rules.scan is AnswerScanning.LABEL)
    if isinstance(answer, BufferedAnswer):
        body = await off_loop_if_large(len(answer.body), READ_BYTES, _rewritten, answer.body, texts, scan.told)
        return BufferedAnswer(body, answer.facts)
    return RewrittenStream(answer, texts, scan.told)


class RewrittenStream:
    """A streamed answer whose texts are rewritten."""

    def __init__(self, answer: StreamedAnswer, texts: AnswerTexts, closing: Closing = dict) -> None:
        """Wrap an answer that has committed and of which nothing was relayed yet."""
        self.facts = answer.facts
        self._answer = answer
        self._texts = texts
        self._closing = closing
        self._envelope: dict[str, Any] = {}

    async def relay(self) -> AsyncIterator[bytes]:
        """Yield the bytes to send on.

        Raises:
            AnswerWithheld: Something was found that the policy lets nobody see; nothing after it was sent.
            TidegateError: As the answer's own `relay`; what was held back has been sent by then.
        """
        decoder = SseDecoder()
        out: list[bytes] = []
        try:
            async for data in self._answer.relay():
                for frame in decoder.feed(data):
                    out.append(await off_loop_if_large(len(frame.raw), READ_BYTES, self._rewritten, frame))
                if ready := b"".join(out):
                    yield ready
                out = []
        except AnswerWithheld:
            if ready := b"".join(out):
                yield ready
            raise
        except TidegateError:
            if rest := b"".join(out) + self._rest():
                yield rest
            raise

    async def aclose(self) -> None:
        """Let the connection go."""
        await self._answer.aclose()

    def _rewritten(self, frame: SseFrame) -> bytes:
        if frame.data is None:
            return frame.raw
        if frame.is_done:
            return self._rest() + self._last() + frame.raw
        chunk = parse_answer(frame.data)
        self._envelope = {key: chunk[key] for key in ("id", "object", "created", "model") if key in chunk}
        self._texts.rewrite(chunk)
        return sse.encode_data(orjson.dumps(chunk))

    def _rest(self) -> bytes:
        choices = self._texts.rest()
        return sse.encode_data(orjson.dumps({**self._envelope, "choices": choices})) if choices else b""

    def _last(self) -> bytes:
        told = self._closing()
        return sse.encode_data(orjson.dumps({**self._envelope, "choices": [], **told})) if told else b""


def _rewritten(body: bytes, texts: AnswerTexts, closing: Closing) -> bytes:
    tree = parse_answer(body)
    texts.rewrite(tree, is_whole=True)
    return orjson.dumps({**tree, **closing()})

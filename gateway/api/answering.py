"""Steps 3 to 8 for a request that wants an answer: decide, have it answered, relay that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.types import Send

from gateway.api.response_headers import response_headers
from gateway.dispatch.relay import relay
from gateway.dispatch.stream_watch import StreamLimits
from gateway.exchange import Exchange
from gateway.pipeline import Pipeline
from inference_protocol.request import InferenceRequest


class Answering:
    """Has a target answer."""

    def __init__(self, pipeline: Pipeline, limits: Callable[[str], StreamLimits]) -> None:
        """Decide and dispatch through `pipeline`; `limits` gives those of a target's streams, by its name."""
        self._pipeline = pipeline
        self._limits = limits

    async def __call__(
        self, exchange: Exchange, request: InferenceRequest, headers: Mapping[str, str], send: Send
    ) -> None:
        """Answer, and return once the last byte is sent.

        Raises:
            TidegateError: Nothing has been sent, and nobody can answer.
        """
        await self._pipeline.decide(exchange, request, headers)
        await self.answer(exchange, send)

    async def answer(self, exchange: Exchange, send: Send) -> None:
        """Have a decided request answered, and return once the last byte is sent.

        Raises:
            TidegateError: Nothing has been sent, and nobody can answer.
        """
        committed = await self._pipeline.answer(exchange)
        try:
            exchange.commit()
            answered = exchange.answered
            assert answered is not None, "it has committed"
            await relay(committed, exchange, response_headers(exchange), send, self._limits(answered.target))
        finally:
            await committed.aclose()

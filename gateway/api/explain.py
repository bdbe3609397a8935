"""`POST /v1/route/explain`: what would be decided for this very request, and why. Sends nothing to any target."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from starlette.types import Send

from gateway.api.public_models import Parse
from gateway.api.response_headers import decision_headers
from gateway.exchange import Exchange
from gateway.pipeline import Pipeline
from inference_protocol import paths
from inference_protocol.json_body import parse_object
from inference_protocol.request import InferenceRequest
from routing_policies.explain import explain
from serving.answers import send_json

# What only one kind of request has says which it is; whatever names none of them is read as a chat.
_OF_FIELD: Mapping[str, str] = {
    "messages": paths.CHAT_COMPLETIONS,
    "prompt": paths.COMPLETIONS,
    "input": paths.EMBEDDINGS,
    "inputs": paths.MODEL_INFER,
}


def either_of(parsers: Mapping[str, Parse]) -> Parse:
    """Return a parser of any request that has a route in `parsers`."""

    def parse(raw: bytes) -> InferenceRequest:
        tree = parse_object(raw)
        route = next((route for field, route in _OF_FIELD.items() if field in tree), paths.CHAT_COMPLETIONS)
        return parsers[route](raw)

    return parse


class Explaining:
    """Takes a request through every step up to the decision, and shows that."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Decide through `pipeline`."""
        self._pipeline = pipeline

    async def __call__(
        self, exchange: Exchange, request: InferenceRequest, headers: Mapping[str, str], send: Send
    ) -> None:
        """Answer with the explanation.

        Raises:
            InvalidHeader: A header cannot be read.
        """
        decided = await self._pipeline.decide(exchange, request, headers)
        found = explain(decided.verdict, decided.view, decided.snapshot, decided.policy)
        body = orjson.dumps({"request_id": exchange.request_id, **found})
        await send_json(send, 200, body, decision_headers(exchange))

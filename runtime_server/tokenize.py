"""`POST /v1/tokenize`: what a prompt or a chat is to the model, as text and as tokens, in vLLM's shape.

It stands at the runtimes alone. The gateway does not pass it on: text that a policy keeps on this machine would go to
whoever counts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from inference_protocol import fields
from inference_protocol.errors import InvalidField, UnknownModel
from inference_protocol.json_body import parse_object
from inference_protocol.openai_chat import check_messages
from inference_protocol.tools import read_tools
from runtime_server.bounded_jinja import TemplateTooSlow
from runtime_server.chat_model import ChatModel
from runtime_server.chat_models import ChatModels
from runtime_server.generation_endpoint import RequestLimits
from runtime_server.lifecycle import Lifecycle
from serving.answers import send_json
from serving.http_request import read_body


class TokenizeEndpoint:
    """The endpoint, as plain ASGI."""

    def __init__(self, lifecycle: Lifecycle, models: ChatModels, limits: RequestLimits) -> None:
        """Wire it.

        Args:
            lifecycle: Says which version of the model is served.
            models: How to talk to it.
            limits: Of each request.
        """
        self._lifecycle = lifecycle
        self._models = models
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            TidegateError: It cannot be answered.
        """
        served = self._lifecycle.refuse_unless_ready().models[0]
        raw = await read_body(scope, receive, max_bytes=self._limits.body_bytes, timeout_s=self._limits.body_timeout_s)
        model = self._models.of(served.digest)
        found = await asyncio.to_thread(_tokenized, raw, model)
        await send_json(send, 200, orjson.dumps({**found, "max_model_len": served.window}))


def _tokenized(raw: bytes, model: ChatModel) -> dict[str, Any]:
    tree = parse_object(raw)
    if tree.get("model") not in (None, model.name):
        raise UnknownModel(f"This runtime serves `{model.name}` alone.", param="model")
    if ("prompt" in tree) == ("messages" in tree):
        raise InvalidField("Give `prompt` or `messages`, one of both.", param="prompt")
    ids, text = _prompt(tree, model) if "prompt" in tree else _chat(tree, model)
    spelled = {}
    if fields.boolean(tree, "return_token_strs"):
        spelled["token_strs"] = [model.prompts.token(id_) for id_ in ids]
    return {"count": len(ids), "tokens": ids, "prompt": text, **spelled}


def _prompt(tree: Mapping[str, Any], model: ChatModel) -> tuple[tuple[int, ...], str]:
    text = fields.string(tree, "prompt")
    adds = fields.boolean(tree, "add_special_tokens", True)
    return model.prompts.encode_text(text, adds_special_tokens=adds), text


def _chat(tree: Mapping[str, Any], model: ChatModel) -> tuple[tuple[int, ...], str]:
    check_messages(tree["messages"])
    tools = read_tools(tree)
    opens = fields.boolean(tree, "add_generation_prompt", True)
    try:
        return model.prompts.render(tree["messages"], () if tools is None else tools.offered, opens_answer=opens)
    except TemplateTooSlow:
        raise InvalidField("The model's chat template takes too long for these messages.", param="messages") from None

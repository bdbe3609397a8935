"""`POST /v1/chat/completions`: OpenAI's body to the canonical request, with `auto` resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from inference_protocol.errors import UnknownModel
from inference_protocol.openai_chat import parse_chat
from inference_protocol.request import InferenceRequest

AUTO = "auto"


def chat_parser(default_model: str, public_models: Callable[[], list[str]]) -> Callable[[bytes], InferenceRequest]:
    """Return the parser of chat requests.

    Args:
        default_model: The public model that `auto` stands for.
        public_models: The public names that are served.
    """

    def parse(raw: bytes) -> InferenceRequest:
        request = parse_chat(raw)
        if request.model == AUTO:
            return replace(request, model=default_model)
        known = public_models()
        if request.model not in known:
            shown = ", ".join([AUTO, *known])
            raise UnknownModel(f"No model of that name is served here. There are: {shown}.", param="model")
        return request

    return parse

"""The public model names: a request asks for one of them, or for `auto`, which stands for the default one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from starlette.types import Scope

from inference_protocol.errors import UnknownModel
from inference_protocol.request import InferenceRequest

AUTO = "auto"
Parse = Callable[[bytes], InferenceRequest]


def always(parse: Parse) -> Callable[[Scope], Parse]:
    """Return what gives the same parser, whatever the path and the headers are."""
    return lambda _: parse


def resolving(parse: Parse, default_model: str, public_models: Callable[[], list[str]]) -> Parse:
    """Return a parser whose requests name a model that is served.

    Args:
        parse: Of the protocol.
        default_model: The public model that `auto` stands for.
        public_models: The public names that are served.
    """

    def resolved(raw: bytes) -> InferenceRequest:
        request = parse(raw)
        if request.model == AUTO:
            return replace(request, model=default_model)
        known = public_models()
        if request.model not in known:
            shown = ", ".join([AUTO, *known])
            raise UnknownModel(f"No model of that name is served here. There are: {shown}.", param="model")
        return request

    return resolved

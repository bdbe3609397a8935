"""`GET /v1/models` and `GET /v1/models/{model}`: the public names, as OpenAI tells them."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from gateway.api.public_models import AUTO
from gateway.targets.registry import Targets
from inference_protocol.errors import UnknownModel
from serving.answers import error_body, send_json


class ModelsEndpoint:
    """Lists what may be asked for, and which targets serve it."""

    def __init__(self, targets: Targets) -> None:
        """List the models of these targets."""
        self._targets = targets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the list."""
        rows = [_row(self._targets, name) for name in _names(self._targets)]
        await send_json(send, 200, orjson.dumps({"object": "list", "data": rows}))


class ModelEndpoint:
    """Tells of one model."""

    def __init__(self, targets: Targets) -> None:
        """Tell of the models of these targets."""
        self._targets = targets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the model that the path names."""
        name = scope["path_params"]["model"]
        if name in _names(self._targets):
            await send_json(send, 200, orjson.dumps(_row(self._targets, name)))
            return
        error = UnknownModel("There is no such model: `GET /v1/models` lists those that there are.", param="model")
        await send_json(send, error.http_status, error_body(error, None))


def _names(targets: Targets) -> list[str]:
    return [AUTO, *targets.public_models()]


def _row(targets: Targets, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "tidegate",
        "targets": [t.name for t in targets if name == AUTO or name in t.settings.models],
    }

"""`GET /v1/models`: the public names, as OpenAI lists them."""

from __future__ import annotations

import orjson
from starlette.types import Receive, Scope, Send

from gateway.api.public_models import AUTO
from gateway.targets.registry import Targets
from serving.answers import send_json


class ModelsEndpoint:
    """Lists what may be asked for, and which targets serve it."""

    def __init__(self, targets: Targets) -> None:
        """List the models of these targets."""
        self._targets = targets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the list."""
        rows = [
            {
                "id": name,
                "object": "model",
                "created": 0,
                "owned_by": "tidegate",
                "targets": [t.name for t in self._targets if name == AUTO or name in t.settings.models],
            }
            for name in [AUTO, *self._targets.public_models()]
        ]
        await send_json(send, 200, orjson.dumps({"object": "list", "data": rows}))

"""`GET /v1/models`: the public names, as OpenAI lists them."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from gateway.api.chat import AUTO
from gateway.targets.registry import Targets


class ModelsEndpoint:
    """Lists what may be asked for, and which targets serve it."""

    def __init__(self, targets: Targets) -> None:
        """List the models of these targets."""
        self._targets = targets

    async def get(self, request: Request) -> Response:
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
        return Response(orjson.dumps({"object": "list", "data": rows}), media_type="application/json")

"""What a runtime tells of itself: the models it serves, its load, whether it is alive and ready."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from inference_protocol.runtime_state import RuntimeStatus
from runtime_server.lifecycle import Lifecycle


class Reports:
    """The endpoints that tell of the runtime itself."""

    def __init__(self, lifecycle: Lifecycle, *, started_s: int) -> None:
        """Report on what `lifecycle` owns; `started_s` is in Unix seconds."""
        self._lifecycle = lifecycle
        self._started_s = started_s

    async def models(self, _: Request) -> Response:
        """OpenAI's list of models; empty until they are loaded."""
        data = [
            {
                "id": model.id,
                "object": "model",
                "created": self._started_s,
                "owned_by": "tidegate",
                "max_model_len": model.window,
            }
            for model in self._lifecycle.state().models
        ]
        return _json({"object": "list", "data": data})

    async def state(self, _: Request) -> Response:
        """What the gateway polls; see `inference_protocol.runtime_state`."""
        return Response(self._lifecycle.state().model_dump_json(), media_type="application/json")

    async def steps(self, _: Request) -> Response:
        """What the engine did lately; see `inference_protocol.engine_steps`."""
        return Response(orjson.dumps({"steps": self._lifecycle.steps()}), media_type="application/json")

    async def live(self, _: Request) -> Response:
        """The loop turns. Also while draining: who is killed then cannot finish."""
        return _json({"status": "live"})

    async def ready(self, _: Request) -> Response:
        """Whether requests are taken."""
        state = self._lifecycle.state()
        status = 200 if state.status is RuntimeStatus.READY else 503
        return _json({"status": state.status, "detail": state.detail}, status)


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")

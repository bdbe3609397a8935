"""What the protocol tells of the server and of its models."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from inference_protocol.errors import Unavailable
from inference_protocol.runtime_state import RuntimeStatus
from runtime_server.lifecycle import Lifecycle
from runtime_server.tensors.catalog import Catalog
from runtime_server.tensors.checking import shown_shape
from runtime_server.tensors.model import TensorSpec
from runtime_server.tensors.service import NotLoaded

EXTENSIONS = ("binary_tensor_data",)


class TensorReports:
    """The endpoints that tell of it."""

    def __init__(self, lifecycle: Lifecycle, catalog: Catalog) -> None:
        """Tell of these models, while `lifecycle` takes requests."""
        self._lifecycle = lifecycle
        self._catalog = catalog

    async def server(self, _: Request) -> Response:
        """Name, version and extensions."""
        version = importlib.metadata.version("tidegate")
        return _json({"name": "tidegate", "version": version, "extensions": list(EXTENSIONS)})

    async def live(self, _: Request) -> Response:
        """The loop turns."""
        return _json({"live": True})

    async def ready(self, _: Request) -> Response:
        """Whether requests are taken."""
        ready = self._lifecycle.state().status is RuntimeStatus.READY
        return _json({"ready": ready}, 200 if ready else 503)

    async def model_ready(self, request: Request) -> Response:
        """Whether this model, of this version, takes requests; it is loaded where it is not yet.

        Raises:
            UnknownModel: There is none of that name and version.
        """
        model, _, service = self._catalog.version(*_asked(request))
        try:
            self._lifecycle.refuse_unless_ready()
            await service.loaded()
        except (NotLoaded, Unavailable):
            return _json({"name": model.served.id, "ready": False}, 503)
        return _json({"name": model.served.id, "ready": True})

    async def model(self, request: Request) -> Response:
        """A model's inputs and outputs.

        Raises:
            UnknownModel: There is none of that name and version.
            Unavailable: It cannot be loaded.
        """
        model, _, service = self._catalog.version(*_asked(request))
        try:
            loaded = await service.loaded()
        except NotLoaded as error:
            raise Unavailable(f"The model cannot be loaded: {error}") from None
        return _json(
            {
                "name": model.served.id,
                "versions": list(model.versions),
                "platform": model.platform,
                "inputs": _shown(loaded.inputs),
                "outputs": _shown(loaded.outputs),
                "properties": {
                    "batch_axes": dict(service.batching.axes),
                    "states": dict(service.states),
                    "labels": list(service.labels),
                },
            }
        )


def _asked(request: Request) -> tuple[str, str | None]:
    return request.path_params["model"], request.path_params.get("version")


def _shown(specs: Sequence[TensorSpec]) -> list[dict[str, Any]]:
    return [{"name": spec.name, "datatype": spec.datatype.value, "shape": shown_shape(spec)} for spec in specs]


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")

"""`/v2`: the Open Inference Protocol. Requests go the way of all others; what models take and give, targets tell."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from gateway.api.public_models import Parse
from gateway.targets.registry import Targets
from gateway.targets.target import Target
from inference_protocol import fields, headers, paths
from inference_protocol.errors import NoTargetAvailable, TidegateError, UnknownModel, UpstreamError, UpstreamProtocol
from inference_protocol.json_body import parse_object
from inference_protocol.open_inference.infer_request import is_version, json_length, parse_infer
from inference_protocol.request import InferenceRequest, Task
from routing_policies.snapshot import Health
from serving.answers import error_body_at, error_headers
from serving.http_request import header
from serving.in_flight import InFlight
from serving.named_route import NamedRoute

INFER_ROUTES = (paths.MODEL_INFER, paths.VERSION_INFER)
_TIMEOUT_S = 10.0  # a target may have to load the model first


def tensor_parser(resolve: Callable[[Parse], Parse]) -> Callable[[Scope], Parse]:
    """Return what gives the parser of a request, whose model and version stand in its path.

    Args:
        resolve: Has a parser's requests name a model that is served.
    """

    def parser(scope: Scope) -> Parse:
        model, version = _asked(scope)
        said = header(scope, headers.INFERENCE_JSON_LENGTH)
        return resolve(lambda raw: parse_infer(raw, model, version, json_length(said, len(raw))))

    return parser


def parse_explained(raw: bytes) -> InferenceRequest:
    """Read a request that is to be explained: its `model` stands in its body, where it has no path of its own.

    Raises:
        InvalidRequest: It cannot be read as one.
    """
    return parse_infer(raw, fields.string(parse_object(raw), "model"))


class TensorReports:
    """What the protocol tells of the server and of its models."""

    def __init__(self, targets: Targets, admission: InFlight) -> None:
        """Tell of these targets' models."""
        self._targets = targets
        self._admission = admission

    def routes(self) -> list[NamedRoute]:
        """Where it is told."""
        found = {
            paths.SERVER_METADATA: self.server,
            paths.SERVER_LIVE: self.live,
            paths.SERVER_READY: self.ready,
            paths.MODEL_READY: self.model_ready,
            paths.VERSION_READY: self.model_ready,
            paths.MODEL_METADATA: self.model,
            paths.VERSION_METADATA: self.model,
        }
        return [NamedRoute(path, endpoint, methods=["GET"]) for path, endpoint in found.items()]

    async def server(self, _: Request) -> Response:
        """Name, version and extensions."""
        version = importlib.metadata.version("tidegate")
        return _json({"name": "tidegate", "version": version, "extensions": ["binary_tensor_data"]})

    async def live(self, _: Request) -> Response:
        """The loop turns."""
        return _json({"live": True})

    async def ready(self, _: Request) -> Response:
        """Whether anything can answer."""
        ready = any(target.health is Health.UP for target in self._targets) and not self._admission.draining
        return _json({"ready": ready}, 200 if ready else 503)

    async def model(self, request: Request) -> Response:
        """A model's inputs and outputs, by the first target that computes it."""
        model, version = _asked(request.scope)
        try:
            target = self._target(model, version)
            own = paths.MODEL_METADATA if version is None else paths.VERSION_METADATA
            path = own.format(model=_served(target, model), version=version)
            return _json({**await _metadata(target, path), "name": model})
        except TidegateError as exc:
            return _refusal(request, exc)

    async def model_ready(self, request: Request) -> Response:
        """Whether a target that is up would compute it now."""
        model, version = _asked(request.scope)
        try:
            target = self._target(model, version)
            own = paths.MODEL_READY if version is None else paths.VERSION_READY
            path = own.format(model=_served(target, model), version=version)
            await target.pool.best().control.get(path, timeout_s=_TIMEOUT_S)
        except UnknownModel as exc:
            return _refusal(request, exc)
        except (NoTargetAvailable, UpstreamError):
            return _json({"name": model, "ready": False}, 503)
        return _json({"name": model, "ready": True})

    def _target(self, model: str, version: str | None) -> Target:
        """Return the first target that computes a model, one that is up before others.

        Raises:
            UnknownModel: None does.
            NoTargetAvailable: Those that do are down.
        """
        found = [target for target in self._targets if Task.TENSOR in _tasks(target, model)]
        if not found or (version is not None and not is_version(version)):
            raise UnknownModel("No model of that name and version computes tensors here.", param="model")
        up = next((target for target in found if target.health is Health.UP), None)
        if up is None:
            raise NoTargetAvailable("Every target that computes this model is down.")
        return up


async def _metadata(target: Target, path: str) -> Mapping[str, Any]:
    """Ask a target.

    Raises:
        UnknownModel: It does not know the version.
        UpstreamError: It does not tell.
    """
    tree = parse_object(await target.pool.best().control.get(path, timeout_s=_TIMEOUT_S, accepted=(200, 404)))
    if "error" in tree:
        raise UnknownModel("The model has no such version.", param="version")
    if not isinstance(tree.get("inputs"), list):
        raise UpstreamProtocol("The target does not say what its model takes.")
    return tree


def _asked(scope: Scope) -> tuple[str, str | None]:
    return scope["path_params"]["model"], scope["path_params"].get("version")


def _tasks(target: Target, model: str) -> frozenset[Task]:
    can = target.capabilities(model)
    return frozenset() if can.served_model is None else can.tasks


def _served(target: Target, model: str) -> str:
    return quote(target.settings.models[model], safe="")


def _json(content: Mapping[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")


def _refusal(request: Request, error: TidegateError) -> Response:
    body = error_body_at(request.scope["path"], error, None)
    return Response(body, error.http_status, error_headers(error), media_type="application/json")

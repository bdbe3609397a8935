"""The wiring of a runtime's HTTP side: which path goes where, and through what, outermost first."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from inference_protocol.runtime_state import RuntimeStatus
from observability import ServerSpanMiddleware, Telemetry
from runtime_server.bearer_auth import BearerAuth
from runtime_server.chat_endpoint import ChatEndpoint, ChatLimits
from runtime_server.chat_model import ChatModel
from runtime_server.lifecycle import Lifecycle
from runtime_server.request_boundary import RequestBoundary, refuse_as_ours

_PROBES = ("/livez", "/readyz")
_DEFAULT_LIMITS = ChatLimits()


def create_app(
    lifecycle: Lifecycle,
    model: ChatModel,
    *,
    telemetry: Telemetry,
    token: str | None = None,
    limits: ChatLimits = _DEFAULT_LIMITS,
    clock_ns: Callable[[], int] = time.time_ns,
) -> Starlette:
    """Build the app. Its lifespan starts the engine, in the background, and stops it.

    Args:
        lifecycle: Owner of the engine.
        model: The one that is served.
        telemetry: Of this process.
        token: What callers must send, except to probes; `None` asks for none.
        limits: Of each request.
        clock_ns: Unix nanoseconds.
    """
    tracer = telemetry.tracer
    chat = ChatEndpoint(lifecycle, model, limits, tracer=tracer, clock_ns=clock_ns)
    reports = _Reports(lifecycle, started_s=clock_ns() // 1_000_000_000)
    routes = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/models", reports.models, methods=["GET"]),
        Route("/internal/state", reports.state, methods=["GET"]),
        Route("/livez", reports.live, methods=["GET"]),
        Route("/readyz", reports.ready, methods=["GET"]),
    ]
    middleware = [
        # Whoever reaches a runtime is the gateway, so the trace goes on; polls would bury it.
        Middleware(ServerSpanMiddleware, tracer, trust_inbound=True, quiet_paths=(*_PROBES, "/internal/state")),
        Middleware(RequestBoundary),
    ]
    if token is not None:
        middleware.append(Middleware(BearerAuth, token, open_paths=_PROBES))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with lifecycle.engine_running():
            yield

    app = Starlette(
        routes=routes, middleware=middleware, exception_handlers={HTTPException: refuse_as_ours}, lifespan=lifespan
    )
    app.router.redirect_slashes = False
    return app


class _Reports:
    """The endpoints that tell of the runtime itself."""

    def __init__(self, lifecycle: Lifecycle, *, started_s: int) -> None:
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

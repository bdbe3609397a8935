"""The wiring of a runtime's HTTP side: which path goes where, and through what, outermost first."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from opentelemetry.trace import Tracer
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from inference_protocol import paths
from observability import ServerSpanMiddleware, Telemetry
from runtime_server.bearer_auth import BearerAuth
from runtime_server.chat import Chat
from runtime_server.chat_models import ChatModels
from runtime_server.completion import Completion
from runtime_server.embeddings.endpoint import EmbeddingsEndpoint
from runtime_server.embeddings.service import EmbeddingService
from runtime_server.generation_endpoint import GenerationEndpoint, RequestLimits
from runtime_server.lifecycle import Lifecycle
from runtime_server.reports import Reports
from runtime_server.request_boundary import RequestBoundary, refuse_as_ours
from runtime_server.tensors.catalog import Catalog
from runtime_server.tensors.endpoint import InferEndpoint
from runtime_server.tensors.metadata import TensorReports
from runtime_server.tokenize import TokenizeEndpoint
from serving.named_route import NamedRoute
from serving.web_guard import Pages, WebGuard

_PROBES = (paths.LIVE, paths.READY)
_DEFAULT_LIMITS = RequestLimits()


def create_app(
    lifecycle: Lifecycle,
    models: ChatModels,
    *,
    telemetry: Telemetry,
    token: str | None = None,
    limits: RequestLimits = _DEFAULT_LIMITS,
    embeddings: Mapping[str, EmbeddingService] = MappingProxyType({}),
    tensors: Catalog | None = None,
    clock_ns: Callable[[], int] = time.time_ns,
) -> Starlette:
    """Build the app. Its lifespan starts the engine, in the background, and stops it.

    Args:
        lifecycle: Owner of the engine.
        models: How to talk to whichever version is served.
        telemetry: Of this process.
        token: What callers must send, except to probes; `None` asks for none.
        limits: Of each request.
        embeddings: Models that embed, by the names that requests ask for.
        tensors: Models that compute tensors.
        clock_ns: Unix nanoseconds.
    """
    tracer = telemetry.tracer
    catalog = Catalog() if tensors is None else tensors
    middleware = [
        # Whoever reaches a runtime is the gateway, so the trace goes on; polls would bury it.
        Middleware(ServerSpanMiddleware, tracer, trust_inbound=True, quiet_paths=(*_PROBES, paths.STATE)),
        Middleware(RequestBoundary),
        # Whoever reaches a runtime is the gateway, and no web page in this machine's browser.
        Middleware(WebGuard, Pages(hosts=None)),
    ]
    if token is not None:
        middleware.append(Middleware(BearerAuth, token, open_paths=_PROBES))

    app = Starlette(
        routes=[
            *_routes(lifecycle, models, limits, tracer, clock_ns),
            Route(
                paths.EMBEDDINGS,
                EmbeddingsEndpoint(lifecycle, embeddings, limits, tracer=tracer, clock_ns=clock_ns),
                methods=["POST"],
            ),
            *_tensor_routes(lifecycle, catalog, limits, tracer, clock_ns),
        ],
        middleware=middleware,
        exception_handlers={HTTPException: refuse_as_ours},
        lifespan=lambda _: _running(lifecycle, embeddings.values(), catalog),
    )
    app.router.redirect_slashes = False
    return app


@asynccontextmanager
async def _running(
    lifecycle: Lifecycle, embeddings: Collection[EmbeddingService], tensors: Catalog
) -> AsyncIterator[None]:
    async with lifecycle.engine_running():
        yield
    for service in embeddings:
        await service.aclose()
    await tensors.aclose()


def _tensor_routes(
    lifecycle: Lifecycle, tensors: Catalog, limits: RequestLimits, tracer: Tracer, clock_ns: Callable[[], int]
) -> list[Route]:
    reports = TensorReports(lifecycle, tensors)
    infer = InferEndpoint(lifecycle, tensors, body_timeout_s=limits.body_timeout_s, tracer=tracer, clock_ns=clock_ns)
    gets = {
        paths.SERVER_METADATA: reports.server,
        paths.SERVER_LIVE: reports.live,
        paths.SERVER_READY: reports.ready,
        paths.MODEL_READY: reports.model_ready,
        paths.VERSION_READY: reports.model_ready,
        paths.MODEL_METADATA: reports.model,
        paths.VERSION_METADATA: reports.model,
    }
    return [
        *(NamedRoute(path, infer, methods=["POST"]) for path in (paths.MODEL_INFER, paths.VERSION_INFER)),
        *(NamedRoute(path, report, methods=["GET"]) for path, report in gets.items()),
    ]


def _routes(
    lifecycle: Lifecycle, models: ChatModels, limits: RequestLimits, tracer: Tracer, clock_ns: Callable[[], int]
) -> list[Route]:
    chat, completion = (
        GenerationEndpoint(task, lifecycle, models, limits, tracer=tracer, clock_ns=clock_ns)
        for task in (Chat(), Completion())
    )
    reports = Reports(lifecycle, started_s=clock_ns() // 1_000_000_000)
    return [
        Route(paths.CHAT_COMPLETIONS, chat, methods=["POST"]),
        Route(paths.COMPLETIONS, completion, methods=["POST"]),
        Route(paths.TOKENIZE, TokenizeEndpoint(lifecycle, models, limits), methods=["POST"]),
        Route(paths.MODELS, reports.models, methods=["GET"]),
        Route(paths.STATE, reports.state, methods=["GET"]),
        Route(paths.STEPS, reports.steps, methods=["GET"]),
        Route(paths.LIVE, reports.live, methods=["GET"]),
        Route(paths.READY, reports.ready, methods=["GET"]),
    ]

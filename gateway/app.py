"""The wiring of the gateway, on one screen."""

from __future__ import annotations

import asyncio
import functools
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI
from opentelemetry.trace import Tracer
from starlette.routing import Route
from starlette.types import ASGIApp

from gateway.api.answering import Answering
from gateway.api.chat import chat_parser
from gateway.api.direct_routes import DirectRoutes
from gateway.api.exchange_opener import ExchangeOpener
from gateway.api.explain import Explaining
from gateway.api.framework_faults import install_fault_handlers
from gateway.api.health import LiveEndpoint, ReadyEndpoint
from gateway.api.inference import InferenceEndpoint
from gateway.api.models import ModelsEndpoint
from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.outbound import Outbound
from gateway.egress.pseudonyms import Pseudonymizer
from gateway.identity import Identity
from gateway.measure import Measurer
from gateway.pipeline import Pipeline
from gateway.policies import PolicyHolder
from gateway.records.log import RecordLog
from gateway.settings import Settings
from gateway.settle import Settlement
from gateway.state.keys import Purpose, load_keys
from gateway.state.label_store import LabelStore, make_label_file
from gateway.state.taint import Taints
from gateway.targets.poller import Poller
from gateway.targets.registry import Targets
from gateway.targets.tokens import reference_tokenizer
from inference_protocol import paths
from observability import ServerSpanMiddleware
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.signals.scanner import build_scanner
from serving.http_request import read_body
from serving.in_flight import InFlight

QUIET_PATHS = frozenset({paths.LIVE, paths.READY, paths.MODELS, paths.OPENAPI})


@dataclass(frozen=True, slots=True)
class App:
    """The gateway as an ASGI application, and what its server needs to drain it."""

    asgi: ASGIApp
    admission: InFlight
    targets: Targets


def create_app(
    settings: Settings,
    policy: LoadedPolicy,
    tracer: Tracer,
    *,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> App:
    """Wire every room.

    Args:
        settings: How this installation runs.
        policy: The policy in force at the start.
        tracer: Where spans go.
        clock: Monotonic seconds.
        wall: Seconds since the epoch, for records.

    Raises:
        ValueError: A credential or the installation's key cannot be read.
    """
    draw = random.Random(secrets.token_bytes(32))  # noqa: S311  # ids and seeds keep no secret
    keys = load_keys(settings.keys_dir, before_the_first=lambda: make_label_file(settings.labels_file))
    scanner = build_scanner()
    targets = Targets.from_settings(settings)
    taints = Taints(LabelStore(settings.labels_file, wall=wall), keys)
    policies = PolicyHolder(policy)
    admission = InFlight(settings.limits.concurrent_requests)
    records = RecordLog.from_settings(settings)
    dispatcher = Dispatcher(
        targets,
        Outbound(keys.derive(Purpose.CACHE_SALT), Pseudonymizer(scanner, keys), clock=clock),
        settings.timeouts,
        tracer,
        clock=clock,
        max_answer_bytes=settings.limits.answer_bytes,
    )
    counter, calibration = reference_tokenizer(settings)
    pipeline = Pipeline(
        policies,
        Measurer(scanner, taints, calibration, counter),
        taints,
        targets,
        records,
        dispatcher,
        tracer,
        clock=clock,
        new_seed=lambda: draw.getrandbits(63),
    )
    chat = functools.partial(
        InferenceEndpoint,
        begin=ExchangeOpener(clock=clock, wall=wall, new_id=lambda: f"req-{draw.getrandbits(96):024x}"),
        identity=Identity(settings.auth),
        admission=admission,
        read_body=functools.partial(
            read_body, max_bytes=settings.limits.body_bytes, timeout_s=settings.timeouts.body_s
        ),
        parse=chat_parser(settings.default_model, targets.public_models),
        settlement=Settlement(targets, records, clock=clock),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        polling = asyncio.create_task(Poller(targets).run(), name="poller")
        try:
            yield
        finally:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
            await targets.aclose()
            records.close()
            taints.close()

    # The bundled documentation pages would load scripts from another host, so only the document itself is served.
    api = FastAPI(title="Tidegate", docs_url=None, redoc_url=None, lifespan=lifespan)
    install_fault_handlers(api)
    posts: dict[str, ASGIApp] = {
        paths.CHAT_COMPLETIONS: chat(Answering(pipeline)),
        paths.ROUTE_EXPLAIN: chat(Explaining(pipeline)),
    }
    gets: dict[str, ASGIApp] = {
        paths.MODELS: ModelsEndpoint(targets),
        paths.LIVE: LiveEndpoint(),
        paths.READY: ReadyEndpoint(targets, policies, admission),
    }
    api.router.routes += [
        *(Route(path, endpoint, methods=["POST"]) for path, endpoint in posts.items()),
        *(Route(path, endpoint, methods=["GET"]) for path, endpoint in gets.items()),
    ]
    asgi = ServerSpanMiddleware(
        DirectRoutes(posts, api), tracer, trust_inbound=settings.telemetry.trust_inbound_trace, quiet_paths=QUIET_PATHS
    )
    return App(asgi, admission, targets)

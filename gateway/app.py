"""The wiring of the gateway."""

from __future__ import annotations

import functools
import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fastapi import FastAPI
from opentelemetry.trace import Tracer
from starlette.routing import Route
from starlette.types import ASGIApp

from gateway.admin.access import Access
from gateway.admin.app import AdminApp
from gateway.admin.outbox_calls import OutboxCalls
from gateway.admin.policy_calls import PolicyCalls
from gateway.admin.views import Views
from gateway.api.answering import Answering
from gateway.api.direct_routes import DirectRoutes
from gateway.api.exchange_opener import ExchangeOpener
from gateway.api.explain import Explaining, either_of
from gateway.api.framework_faults import install_fault_handlers
from gateway.api.guarded import Guarded
from gateway.api.health import LiveEndpoint, ReadyEndpoint
from gateway.api.inference import InferenceEndpoint
from gateway.api.kept import KeptRequests
from gateway.api.models import ModelEndpoint, ModelsEndpoint
from gateway.api.openapi import OpenApiEndpoint
from gateway.api.public_models import Parse, always, resolving
from gateway.api.tensors import INFER_ROUTES, TensorReports, parse_explained, tensor_parser
from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.outbound import Outbound
from gateway.dispatch.stream_watch import StreamLimits
from gateway.egress.pseudonyms import Pseudonymizer
from gateway.kept.deferring import Deferring
from gateway.kept.flusher import Flusher, FlusherRooms
from gateway.kept.room import KeptRoom
from gateway.measure import Measurer
from gateway.metrics.instruments import OF_STATE
from gateway.metrics.state import StateMetrics
from gateway.metrics.vocabulary import ANSWER_HEADERS
from gateway.pipeline import Pipeline
from gateway.policies.draw import Seeds
from gateway.policies.rollout import Rollout
from gateway.policies.start import Begun
from gateway.records.denials import DenialLog, Denied
from gateway.rooms import Rooms, open_rooms
from gateway.settings import Settings
from gateway.settle import Settlement
from gateway.state.keys import Keys, Purpose, load_keys
from gateway.state.label_store import make_label_file
from gateway.targets.registry import Targets
from gateway.targets.tokens import reference_tokenizer
from inference_protocol import paths
from inference_protocol.openai_chat import parse_chat
from inference_protocol.openai_completion import parse_completion
from inference_protocol.openai_embedding import parse_embedding
from observability import Meters, ServerSpanMiddleware
from routing_policies.signals.scanner import build_scanner
from serving.http_request import read_body
from serving.in_flight import InFlight
from serving.named_route import NamedRoute
from serving.web_guard import WebGuard

QUIET_PATHS = frozenset({paths.LIVE, paths.READY, paths.MODELS, paths.OPENAPI, paths.SERVER_LIVE, paths.SERVER_READY})
# What everybody may ask for, whoever they are.
OPEN_PATHS = frozenset({paths.LIVE, paths.READY, paths.OPENAPI, paths.SERVER_LIVE, paths.SERVER_READY})


@dataclass(frozen=True, slots=True)
class App:
    """The gateway as an ASGI application, what its server needs to drain it, and what operators reach it by.

    Attributes:
        admin: The application of the admin listener.
        reload: Has the files of the policy and of the keys read again, soon.
        meters: What is counted and measured.
    """

    asgi: ASGIApp
    admin: ASGIApp
    meters: Meters
    admission: InFlight
    targets: Targets
    rollout: Rollout
    reload: Callable[[], None]
    kept: KeptRoom


@dataclass(frozen=True, slots=True)
class _Way:
    """The way of a request past its front door, which deferred requests go too."""

    pipeline: Pipeline
    answering: Answering
    settlement: Settlement
    parsers: Mapping[str, Parse]
    resolve: Callable[[Parse], Parse]


def create_app(
    settings: Settings,
    begun: Begun,
    tracer: Tracer,
    *,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> App:
    """Wire every room.

    Args:
        settings: How this installation runs.
        begun: The policy in force at the start.
        tracer: Where spans go.
        clock: Monotonic seconds.
        wall: Seconds since the epoch, for records.

    Raises:
        ValueError: A credential or the installation's key cannot be read.
        OSError: The state folder cannot be used.
    """
    draw = random.Random(secrets.token_bytes(32))  # noqa: S311  # ids and seeds keep no secret
    keys = load_keys(settings.folder.keys, before_the_first=lambda: make_label_file(settings.folder.labels_file))
    rooms = open_rooms(settings, begun, keys, draw, clock=clock, wall=wall)
    _observe(rooms, clock)
    pipeline = _pipeline(settings, rooms, keys, tracer, clock=clock, any_seed=lambda: draw.getrandbits(63))
    begin = ExchangeOpener(clock=clock, wall=wall, new_id=lambda: f"req-{draw.getrandbits(96):024x}")
    way = _way(settings, rooms, pipeline, clock)
    posts = _posts(settings, rooms, way, begin, clock)
    flusher = _flusher(settings, rooms, way, tracer, begin)
    denials = DenialLog(settings.folder.denials, rooms.meters, wall=wall)
    asgi = ServerSpanMiddleware(
        _front(settings, rooms, posts, flusher, denials.at("public")),
        tracer,
        trust_inbound=settings.telemetry.trust_inbound_trace,
        quiet_paths=QUIET_PATHS,
    )
    return App(
        asgi,
        _admin(settings, rooms, flusher, clock, denials.at("admin")),
        rooms.meters,
        rooms.admission,
        rooms.targets,
        rooms.rollout,
        rooms.ask_to_reload,
        rooms.kept,
    )


def _observe(rooms: Rooms, clock: Callable[[], float]) -> None:
    """Have the rooms read whenever somebody asks how they stand."""
    state = StateMetrics(
        rooms.targets, rooms.rollout, rooms.records, rooms.admission, rooms.connectivity, rooms.kept, clock=clock
    )
    rooms.meters.observe(OF_STATE, state.read)


def _admin(
    settings: Settings, rooms: Rooms, flusher: Flusher | None, clock: Callable[[], float], denied: Denied
) -> ASGIApp:
    """What operators reach: each room brings its own routes."""
    views = Views(
        rooms.rollout,
        rooms.targets,
        rooms.connectivity,
        rooms.admission,
        rooms.kept,
        rooms.metrics,
        rooms.meters,
        clock=clock,
    )
    routes = [*views.routes(), *PolicyCalls(rooms.rollout).routes()]
    if rooms.kept.outbox is not None and flusher is not None:
        routes += OutboxCalls(rooms.kept.outbox, flusher).routes()
    return WebGuard(AdminApp(Access(rooms.identity), routes, denied), settings.admin.pages(), denied)


def _pipeline(
    settings: Settings,
    rooms: Rooms,
    keys: Keys,
    tracer: Tracer,
    *,
    clock: Callable[[], float],
    any_seed: Callable[[], int],
) -> Pipeline:
    """Steps 3 to 6 of the way of a request."""
    scanner = build_scanner()
    counter, calibration = reference_tokenizer(settings)
    dispatcher = Dispatcher(
        rooms.targets,
        Outbound(
            keys.derive(Purpose.CACHE_SALT),
            Pseudonymizer(scanner, keys),
            clock=clock,
            keeps_prefixes=settings.edge.keeps_prefixes,
        ),
        scanner,
        settings.timeouts,
        tracer,
        clock=clock,
        max_answer_bytes=settings.limits.answer_bytes,
        attempts=settings.attempts,
    )
    return Pipeline(
        rooms.rollout.holder,
        Measurer(scanner, rooms.taints, calibration, counter),
        rooms.second_tier,
        rooms.taints,
        rooms.targets,
        rooms.records,
        dispatcher,
        tracer,
        clock=clock,
        seeds=Seeds(keys, any_seed),
    )


def _way(settings: Settings, rooms: Rooms, pipeline: Pipeline, clock: Callable[[], float]) -> _Way:
    resolve = functools.partial(
        resolving, default_model=settings.default_model, public_models=rooms.targets.public_models
    )
    return _Way(
        pipeline,
        Answering(pipeline, _stream_limits(settings)),
        Settlement(rooms.targets, rooms.records, rooms.metrics, clock=clock),
        {
            paths.CHAT_COMPLETIONS: resolve(parse_chat),
            paths.COMPLETIONS: resolve(parse_completion),
            paths.EMBEDDINGS: resolve(parse_embedding),
        },
        resolve,
    )


def _posts(
    settings: Settings, rooms: Rooms, way: _Way, begin: ExchangeOpener, clock: Callable[[], float]
) -> dict[str, ASGIApp]:
    """The routes that take an inference request; they differ in what is done with it."""
    endpoint = functools.partial(
        InferenceEndpoint,
        begin=begin,
        identity=rooms.identity,
        admission=rooms.admission,
        quotas=rooms.quotas,
        read_body=functools.partial(
            read_body, max_bytes=settings.limits.body_bytes, timeout_s=settings.timeouts.body_s
        ),
        settlement=way.settlement,
    )
    answering = Deferring(way.answering, way.pipeline, rooms.kept.outbox, rooms.connectivity)
    posts: dict[str, ASGIApp] = {
        path: endpoint(answering, parser=always(parse), finishing=rooms.kept.finishing)
        for path, parse in way.parsers.items()
    }
    tensors = tensor_parser(way.resolve)
    for route in INFER_ROUTES:
        posts[route] = endpoint(way.answering, parser=tensors, begin=functools.partial(begin, route=route))
    explained = either_of({**way.parsers, paths.MODEL_INFER: way.resolve(parse_explained)})
    return {**posts, paths.ROUTE_EXPLAIN: endpoint(Explaining(way.pipeline), parser=always(explained))}


def _flusher(settings: Settings, rooms: Rooms, way: _Way, tracer: Tracer, begin: ExchangeOpener) -> Flusher | None:
    """What answers deferred requests, where there are any."""
    if rooms.kept.outbox is None:
        return None
    return Flusher(
        rooms.kept.outbox,
        FlusherRooms(
            rooms.identity,
            rooms.quotas,
            rooms.admission,
            way.pipeline,
            way.answering,
            rooms.kept,
            way.settlement,
            rooms.targets,
            rooms.connectivity,
            way.parsers,
            tracer,
        ),
        settings.outbox,
        begin,
    )


def _stream_limits(settings: Settings) -> Callable[[str], StreamLimits]:
    """The bounds on a stream, by the target that it comes from."""
    found: dict[str, StreamLimits] = {}
    for name, own in settings.targets.items():
        timeouts = own.timeouts.over(settings.timeouts)
        found[name] = StreamLimits(timeouts.idle_s, timeouts.total_s, timeouts.reader_s, timeouts.ping_s)
    return found.__getitem__


def _front(
    settings: Settings, rooms: Rooms, posts: Mapping[str, ASGIApp], flusher: Flusher | None, denied: Denied
) -> ASGIApp:
    """Whom requests come by, outermost first: web pages are told apart, then callers."""
    guarded = Guarded(_framework(rooms, posts, flusher), rooms.identity, open_paths=OPEN_PATHS, denied=denied)
    exact = {path: endpoint for path, endpoint in posts.items() if "{" not in path}
    return WebGuard(DirectRoutes(exact, guarded), settings.listen.pages(ANSWER_HEADERS), denied)


def _framework(rooms: Rooms, posts: Mapping[str, ASGIApp], flusher: Flusher | None) -> FastAPI:
    """All routes within the framework, which answers for other paths and methods too."""
    # Our own document, and not the bundled pages, which would load scripts from another host.
    lifespan = functools.partial(rooms.lifespan, flusher=flusher)
    api = FastAPI(title="Tidegate", openapi_url=None, lifespan=lifespan)
    install_fault_handlers(api)
    api.router.redirect_slashes = False  # which would write the caller's `Host` into an address
    kept = KeptRequests(rooms.kept)
    gets: dict[str, ASGIApp] = {
        paths.KEPT_ANSWER: kept.answer,
        paths.KEPT_STREAM: kept.stream,
        paths.MODELS: ModelsEndpoint(rooms.targets),
        # Names may hold a slash.
        paths.MODEL.replace("}", ":path}"): ModelEndpoint(rooms.targets),
        paths.LIVE: LiveEndpoint(),
        paths.READY: ReadyEndpoint(rooms.targets, rooms.rollout, rooms.admission, rooms.identity),
        paths.OPENAPI: OpenApiEndpoint(),
    }
    api.router.routes += [
        *(NamedRoute(path, endpoint, methods=["POST"]) for path, endpoint in posts.items()),
        *TensorReports(rooms.targets, rooms.admission).routes(),
        *(Route(path, endpoint, methods=["GET"]) for path, endpoint in gets.items()),
        Route(paths.KEPT_REQUEST, kept.request, methods=["GET", "DELETE"]),
    ]
    return api

"""A runtime's process: from options to a served socket, and from a signal to a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from observability import TelemetrySettings, set_up
from runtime_server.app import create_app
from runtime_server.chat_endpoint import ChatLimits
from runtime_server.chat_model import load_chat_model
from runtime_server.engine import Engine
from runtime_server.lifecycle import Lifecycle
from runtime_server.listener import Listener, ListenRefused, bind_tcp, bind_unix
from runtime_server.model_folder import ModelFolderUnusable
from runtime_server.options import RuntimeOptions

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# What answers get, once their generations were cancelled, to say so to their clients.
_CLOSING_TIMEOUT_S = 5
_TELEMETRY_TIMEOUT_S = 2.0
# Longer than the gateway keeps a connection it does not use, so that it is never the one to find it closed.
_KEEP_ALIVE_S = 75

_logger = logging.getLogger(__name__)


def run(service_name: str, build_engine: Callable[[], Engine], options: RuntimeOptions) -> int:
    """Serve one engine until a signal ends it.

    Args:
        service_name: The program's name in traces.
        build_engine: Makes the engine, which must not load its model before `start`.
        options: From the command line.

    Returns:
        The process's exit status: 0 after a signal, 1 if the engine could not start, 2 if it was told to serve what
        or where it cannot.
    """
    logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    try:
        token = options.read_token()
        model = load_chat_model(options.model_dir, options.model_name)
        engine = build_engine()
        listener = _bind(options, authenticated=token is not None)
    except (ListenRefused, ModelFolderUnusable) as exc:
        _logger.error("%s", exc)
        return 2
    telemetry = set_up(TelemetrySettings(service_name, options.trace_dir, options.otlp_endpoint))
    try:
        lifecycle = Lifecycle(engine)
        limits = ChatLimits(default_max_tokens=options.default_max_tokens)
        app = create_app(lifecycle, model, telemetry=telemetry, token=token, limits=limits)
        return serve(app, lifecycle, listener, drain_timeout_s=options.drain_timeout_s)
    finally:
        listener.close()
        telemetry.shutdown(_TELEMETRY_TIMEOUT_S)


def serve(app: ASGIApp, lifecycle: Lifecycle, listener: Listener, *, drain_timeout_s: float) -> int:
    """Serve `app` until SIGTERM, SIGINT or the engine's failure; see `run` for what is returned.

    The first signal drains: no new requests, while the running ones have `drain_timeout_s` to finish. A second one
    cancels those too.
    """
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_CLOSING_TIMEOUT_S,
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(_Server(config, listener), lifecycle, drain_timeout_s))
    return 1 if lifecycle.failed.is_set() else 0


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn's handler closes the door at once, before `/readyz` could say that it will."""

    def __init__(self, config: uvicorn.Config, listener: Listener) -> None:
        super().__init__(config)
        self.listener = listener

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _logger.info("Serving %s", self.listener.address)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(server: _Server, lifecycle: Lifecycle, drain_timeout_s: float) -> None:
    stopping = asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            lifecycle.cancel_running()
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    serving = asyncio.create_task(server.serve(sockets=[server.listener.socket]))
    ends = [asyncio.create_task(event.wait()) for event in (stopping, lifecycle.failed)]
    await asyncio.wait([serving, *ends], return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    if stopping.is_set():
        _logger.info("Draining")
        await lifecycle.drain(drain_timeout_s)
    server.should_exit = True
    await serving


def _bind(options: RuntimeOptions, *, authenticated: bool) -> Listener:
    if options.socket is not None:
        return bind_unix(options.socket)
    return bind_tcp(options.host, options.port or 0, authenticated=authenticated)

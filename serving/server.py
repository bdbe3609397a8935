"""One server loop for all our programs: serve until a signal or a failure, drain, stop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import uvicorn
from starlette.types import ASGIApp

from serving.garbage import rare_collections
from serving.http_protocol import BoundedHttpProtocol
from serving.listener import Listener
from serving.server_tls import ServerTls
from serving.service_manager import ServiceManager

# What answers get, once their work was cancelled, to say so to their clients.
_CLOSING_TIMEOUT_S = 5
# Longer than our own clients keep a connection they do not use, so that they are never the ones to find it closed.
_KEEP_ALIVE_S = 75

_logger = logging.getLogger(__name__)


def _nothing() -> None:
    """Nothing to hurry along."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program comes to its end.

    Attributes:
        drain: Takes no new requests and returns when the running ones have finished, or their time is up.
        hurry: Called at a second signal, which also ends the drain: ends the running requests too.
        failed: Set by the program when it cannot go on.
    """

    drain: Callable[[], Coroutine[Any, Any, object]]
    hurry: Callable[[], None] = _nothing
    failed: asyncio.Event | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """What a program serves beside its application, until that has ended: it has no part in the drain.

    Attributes:
        app: Served without a lifespan.
    """

    app: ASGIApp
    listener: Listener


def serve_until_signal(
    app: ASGIApp,
    listener: Listener,
    ending: Ending,
    *,
    beside: Beside | None = None,
    on_hangup: Callable[[], None] | None = None,
) -> None:
    """Serve `app` until SIGTERM, SIGINT or its own failure.

    The first signal drains. `/readyz` says so while connections are still taken, so that a load balancer sees it. The
    second ends the drain: what still runs then is cut off. SIGHUP calls `on_hangup`; without that it ends the program.
    A service manager that wants to be told of all this is.
    """
    manager = ServiceManager()
    told = functools.partial(manager.tell, "READY=1", f"STATUS=Serving {listener.address}")
    server = _Server(_config(app, listener, lifespan="on"), listener, told)
    side = None if beside is None else _Server(_config(beside.app, beside.listener, lifespan="off"), beside.listener)
    with rare_collections(), asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(_serve(server, side, ending, on_hangup, manager))


def _config(app: ASGIApp, listener: Listener, *, lifespan: Literal["on", "off"]) -> uvicorn.Config:
    tls = listener.tls
    return uvicorn.Config(
        app,
        ssl_context_factory=None if tls is None else lambda *_: tls.context,
        http=BoundedHttpProtocol,
        ws="none",
        lifespan=lifespan,
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_CLOSING_TIMEOUT_S,
    )


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn's handler closes the door at once, before `/readyz` could say that it will."""

    def __init__(self, config: uvicorn.Config, listener: Listener, when_serving: Callable[[], None] = _nothing) -> None:
        super().__init__(config)
        self.listener = listener
        self._when_serving = when_serving

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _logger.info("Serving %s", self.listener.address)
        self._when_serving()

    def leave_what_is_inherited(self) -> None:
        """Take no more connections at a socket that the next process gets, too: who comes now is its."""
        if self.listener.is_inherited:
            for each in self.servers:
                each.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(
    server: _Server,
    side: _Server | None,
    ending: Ending,
    on_hangup: Callable[[], None] | None,
    manager: ServiceManager,
) -> None:
    stopping, hurrying = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            hurrying.set()
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    secured = [each.listener.tls for each in (server, side) if each is not None and each.listener.tls is not None]
    if on_hangup is not None:
        loop.add_signal_handler(signal.SIGHUP, _all_of, on_hangup, *(tls.ask for tls in secured))
    async with manager.watched(), _watching(secured):
        serving = asyncio.create_task(server.serve(sockets=[server.listener.socket]))
        serving_beside = None if side is None else asyncio.create_task(side.serve(sockets=[side.listener.socket]))
        failed = [] if ending.failed is None else [ending.failed.wait()]
        await _first_of(serving, stopping.wait(), *failed)
        if stopping.is_set():
            _logger.info("Draining")
            manager.tell("STOPPING=1", "STATUS=Draining")
            server.leave_what_is_inherited()
            await _first_of(ending.drain(), hurrying.wait())
            if hurrying.is_set():
                _logger.info("Told twice: ending what still runs")
                ending.hurry()
        server.should_exit = True
        await serving
        if side is not None and serving_beside is not None:
            side.should_exit = True
            await serving_beside


@contextlib.asynccontextmanager
async def _watching(secured: Iterable[ServerTls]) -> AsyncIterator[None]:
    """Take up certificates as their files change."""
    watches = [asyncio.create_task(tls.watch(), name="tls") for tls in secured]
    try:
        yield
    finally:
        for watch in watches:
            watch.cancel()


def _all_of(*calls: Callable[[], None]) -> None:
    for call in calls:
        call()


async def _first_of(*waits: asyncio.Task[None] | Coroutine[Any, Any, object]) -> None:
    """Return when one of them is over, and drop those that were begun here."""
    begun = [asyncio.create_task(wait) for wait in waits if not isinstance(wait, asyncio.Task)]
    given = [wait for wait in waits if isinstance(wait, asyncio.Task)]
    await asyncio.wait([*given, *begun], return_when=asyncio.FIRST_COMPLETED)
    for task in begun:
        task.cancel()

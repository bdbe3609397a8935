from __future__ import annotations

import asyncio
import os
import signal

import pytest
from starlette.types import Receive, Scope, Send

from serving.listener import bind_tcp
from serving.server import Ending, serve_until_signal


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Is told to end as soon as it has started."""
    assert scope["type"] == "lifespan"
    await receive()
    await send({"type": "lifespan.startup.complete"})
    os.kill(os.getpid(), signal.SIGTERM)
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


@pytest.mark.parametrize("signals", [1, 2])
def test_the_first_signal_drains_and_the_second_ends_the_drain(signals: int) -> None:
    happened: list[str] = []

    async def drain() -> None:
        happened.append("draining")
        if signals == 2:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        happened.append("drained")

    listener = bind_tcp("127.0.0.1", 0, authenticated=False)
    serve_until_signal(app, listener, Ending(drain, hurry=lambda: happened.append("hurried")))
    listener.close()
    assert happened == ["draining", "drained" if signals == 1 else "hurried"]


def test_a_program_that_fails_ends_without_a_drain() -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        failed.set()
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def drain() -> None:
        raise AssertionError("nothing is left to wait for")

    failed = asyncio.Event()
    listener = bind_tcp("127.0.0.1", 0, authenticated=False)
    serve_until_signal(failing, listener, Ending(drain, failed=failed))
    listener.close()
    assert failed.is_set()

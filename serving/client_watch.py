"""Noticing that a client hung up, so that nothing is generated for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive


class Client:
    """Whether the client is still there."""

    def __init__(self) -> None:
        """Begin with it there."""
        self.gone = False
        self._callbacks: list[Callable[[], object]] = []

    def when_gone(self, callback: Callable[[], object]) -> None:
        """Call back once it hangs up; at once if it has."""
        if self.gone:
            callback()
        else:
            self._callbacks.append(callback)

    async def watch(self, receive: Receive) -> None:
        """Return once it hung up."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        for callback in self._callbacks:
            callback()


@asynccontextmanager
async def watched_client(receive: Receive) -> AsyncIterator[Client]:
    """Watch for a hang-up inside the block. The body must have been read: nothing else is left to receive."""
    client = Client()
    watcher = asyncio.create_task(client.watch(receive))
    try:
        yield client
    finally:
        watcher.cancel()


async def unless_gone(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run `work` here, and cancel it when the caller hangs up.

    Raises:
        ClientDisconnect: The caller hung up first; `work` has ended by then.
    """
    here = asyncio.current_task()
    assert here is not None
    async with watched_client(receive) as client:
        client.when_gone(here.cancel)
        try:
            await work
            if client.gone:
                await asyncio.sleep(0)  # the cancellation that came too late arrives here and not somewhere later
        except asyncio.CancelledError:
            if client.gone and here.uncancel() == 0:
                raise ClientDisconnect from None
            raise

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def until(check: Callable[[], Awaitable[bool]], *, within_s: float = 20) -> None:
    """Ask again and again, of something that only answers questions, until it says yes."""
    async with asyncio.timeout(within_s):
        while not await check():  # noqa: ASYNC110  # what is waited for stands behind a socket
            await asyncio.sleep(0.01)

"""Waiting for what sets no event, with a bound."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def until(check: Callable[[], bool | Awaitable[bool]], *, within_s: float = 20.0) -> None:
    """Ask again and again, until the answer is yes."""
    async with asyncio.timeout(within_s):
        while True:
            answer = check()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(0.01)

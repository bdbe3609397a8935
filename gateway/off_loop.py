"""Work on a body that grows with it: of a small one at once, of a large one in a thread, so that others do not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

READ_BYTES = 64 << 10
"""Where one pass over a body (parsing, scanning, splicing) takes about a millisecond: beside that a thread is cheap."""
COUNT_BYTES = 16 << 10
"""The same for work that costs several times as much a byte: counting tokens, replacing values."""


async def off_loop_if_large(
    size_bytes: int, limit_bytes: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call `function`, in a thread where `size_bytes` is over the limit.

    Args:
        size_bytes: Of what it works on.
        limit_bytes: `READ_BYTES` or `COUNT_BYTES`.
        function: Safe to run in a thread.
        *args: Its arguments.
        **kwargs: Its keyword arguments.
    """
    if size_bytes <= limit_bytes:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)

"""Work on a body that grows with it: of a small one at once, of a large one in a thread, so that others do not wait."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

READ_BYTES = 64 << 10
"""Where one pass over a body (parsing, scanning, splicing) takes about a millisecond: beside that a thread is cheap."""
COUNT_BYTES = 16 << 10
"""The same for work that costs several times as much a byte: counting tokens, replacing values."""
_SHORT_TURN_S = 0.0005


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


async def off_loop_in_short_turns(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a computation of seconds in a thread, and let the loop have the interpreter back within half a millisecond.

    With the usual five each wait of the loop would become five longer as long as it runs. One such call at a time:
    whoever calls sees to that.

    Args:
        function: Safe to run in a thread.
        *args: Its arguments.
        **kwargs: Its keyword arguments.
    """
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(_SHORT_TURN_S)
    try:
        return await asyncio.to_thread(function, *args, **kwargs)
    finally:
        sys.setswitchinterval(usual_s)

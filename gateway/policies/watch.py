"""Reloads as the policy's file changes, and as somebody asks by a signal.

Each second the file is read and not merely looked at: what a time of change or an inode says depends on the file
system, on how an editor saves and on how Kubernetes swaps its links, while the bytes are what counts: a few KB.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from gateway.policies.document import read_again
from gateway.policies.offers import By
from gateway.policies.rollout import Rollout
from routing_policies.policy.errors import PolicyError
from serving.crashes import log_crash

_logger = logging.getLogger(__name__)

EVERY_S = 1.0


class PolicyWatch:
    """Runs until it is cancelled."""

    def __init__(self, rollout: Rollout, *, every_s: float = EVERY_S, on_change: bool = True) -> None:
        """Set up.

        Args:
            rollout: Is told to reload.
            every_s: Seconds between two looks at the file.
            on_change: Whether a changed file is reloaded by itself, and not only when somebody asks.
        """
        self._rollout = rollout
        self._every_s = every_s
        self._on_change = on_change
        self._asked = asyncio.Event()
        self._seen: str | None = None

    def ask(self) -> None:
        """Reload soon; however often somebody asks meanwhile, that is once."""
        self._asked.set()

    async def run(self) -> None:
        """Look and reload until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._asked.wait()
            try:
                await self._look()
            except Exception as exc:
                log_crash(_logger, "the watch on the policy", exc)

    async def _look(self) -> None:
        if self._asked.is_set():
            self._asked.clear()
            await self._reload(By("signal"), only_if_changed=False)
        if not self._on_change:
            return
        found = await asyncio.to_thread(_fingerprint, self._rollout.source)
        if found != self._seen:
            self._seen = found
            await self._reload(By("file"), only_if_changed=True)

    async def _reload(self, by: By, *, only_if_changed: bool) -> None:
        with contextlib.suppress(PolicyError):  # it is logged, and `stale` says so
            await self._rollout.reload(by, only_if_changed=only_if_changed)


def _fingerprint(source: str) -> str:
    """What the file holds, or why that cannot be told."""
    try:
        return read_again(source).sha256
    except PolicyError as exc:
        return str(exc)

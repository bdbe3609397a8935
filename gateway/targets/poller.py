"""Keeps every target's state fresh: our own runtimes are asked for their load, others whether they answer at all."""

from __future__ import annotations

import asyncio

from pydantic import ValidationError

from gateway.settings import TargetProtocol
from gateway.targets.registry import Targets
from gateway.targets.target import Target
from inference_protocol import paths
from inference_protocol.errors import UpstreamError, UpstreamUnreachable
from inference_protocol.runtime_state import RuntimeState


class Poller:
    """One task per target. A probe that fails a few times in a row, or finds nobody listening, marks it down."""

    def __init__(
        self, targets: Targets, *, interval_s: float = 0.25, other_interval_s: float = 5.0, timeout_s: float = 2.0
    ) -> None:
        """Set the pace.

        Args:
            targets: Whose state is kept.
            interval_s: Between polls of our own runtimes.
            other_interval_s: Between probes of other servers.
            timeout_s: For one answer.
        """
        self._targets = targets
        self._interval_s = interval_s
        self._other_interval_s = other_interval_s
        self._timeout_s = timeout_s

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as group:
            for target in self._targets:
                group.create_task(self._keep(target), name=f"poll-{target.name}")

    async def _keep(self, target: Target) -> None:
        ours = target.settings.protocol is TargetProtocol.TIDEGATE
        failures = 0
        while True:
            try:
                await (self._ask_state(target) if ours else self._ask_models(target))
                failures = 0
            except (UpstreamError, ValidationError) as exc:
                failures += 1
                refused = isinstance(exc, UpstreamUnreachable) and "ConnectError" in exc.message
                if refused or failures >= 3:
                    detail = exc.message if isinstance(exc, UpstreamError) else "its state cannot be read"
                    target.mark_unreachable(detail)
            await asyncio.sleep(self._interval_s if ours else self._other_interval_s)

    async def _ask_state(self, target: Target) -> None:
        body = await target.control.get(paths.STATE, timeout_s=self._timeout_s)
        target.reported(RuntimeState.model_validate_json(body))

    async def _ask_models(self, target: Target) -> None:
        await target.control.get(paths.MODELS, timeout_s=self._timeout_s)
        target.answered()

"""Keeps every target's state fresh: our own runtimes are asked for their load, others whether they answer at all."""

from __future__ import annotations

import asyncio
import logging

from pydantic import ValidationError

from gateway.settings import TargetProtocol
from gateway.targets.registry import Targets
from gateway.targets.target import Target
from inference_protocol import paths
from inference_protocol.errors import UpstreamError, UpstreamUnreachable
from inference_protocol.runtime_state import RuntimeState
from serving.crashes import log_crash

_TOLERATED = 3

_logger = logging.getLogger(__name__)


class Poller:
    """One task per target. A probe that finds nobody listening, or the third in a row that fails, marks it down.

    No failure ends the polling, not even a fault of our own: a target would keep its last health for ever.
    """

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
            except UpstreamUnreachable as exc:
                failures = _TOLERATED
                target.mark_unreachable(exc.message)
            except Exception as exc:
                failures += 1
                if not isinstance(exc, (UpstreamError, ValidationError)) and failures == 1:
                    log_crash(_logger, f"the poll of {target.name}", exc)
                if failures >= _TOLERATED:
                    target.mark_unreachable(
                        exc.message if isinstance(exc, UpstreamError) else "its state is unreadable"
                    )
            await asyncio.sleep(self._interval_s if ours else self._other_interval_s)

    async def _ask_state(self, target: Target) -> None:
        body = await target.control.get(paths.STATE, timeout_s=self._timeout_s)
        target.reported(RuntimeState.model_validate_json(body))

    async def _ask_models(self, target: Target) -> None:
        await target.control.get(paths.MODELS, timeout_s=self._timeout_s)
        target.answered()

"""Keeps every target's state fresh: our own runtimes are asked for their load, others whether they answer at all."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from pydantic import ValidationError

from gateway.target_settings import TargetProtocol
from gateway.targets.connectivity import ConnectivityWatch, Evidence
from gateway.targets.registry import Targets
from gateway.targets.replica import Replica
from gateway.targets.target import Target
from inference_protocol import paths
from inference_protocol.errors import UpstreamCaptive, UpstreamError, UpstreamUnreachable
from inference_protocol.runtime_state import RuntimeState
from serving.crashes import log_crash

_TOLERATED = 3
# What a server that lives may answer at a path that it need not have.
_SIGNS_OF_LIFE = frozenset({200, 204, 404, 405})

_logger = logging.getLogger(__name__)


class Poller:
    """One task per address. A probe that finds nobody listening, or the third in a row that fails, marks it down.

    No failure ends the polling, not even a fault of our own: an address would keep its last health for ever.
    """

    def __init__(
        self,
        targets: Targets,
        *,
        connectivity: ConnectivityWatch | None = None,
        interval_s: float = 0.25,
        other_interval_s: float = 5.0,
        timeout_s: float = 2.0,
        renew_s: float = 30.0,
    ) -> None:
        """Set the pace.

        Args:
            targets: Whose state is kept.
            connectivity: Is told how the probes of what may be elsewhere went.
            interval_s: Between polls of our own runtimes.
            other_interval_s: Between probes of other servers.
            timeout_s: For one answer.
            renew_s: Between looks at certificates, credentials and names.
        """
        self._targets = targets
        self._connectivity = connectivity
        self._interval_s = interval_s
        self._other_interval_s = other_interval_s
        self._timeout_s = timeout_s
        self._renew_s = renew_s
        self._renewals = {target.name: asyncio.Event() for target in targets}

    def ask_to_renew(self) -> None:
        """Have certificates, credentials and names looked at now."""
        for asked in self._renewals.values():
            asked.set()

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as group:
            for target in self._targets:
                for replica in target.pool:
                    group.create_task(self._keep(target, replica), name=f"poll-{target.name}")
                group.create_task(self._renew(target), name=f"renew-{target.name}")

    async def _keep(self, target: Target, replica: Replica) -> None:
        ours = target.settings.protocol is TargetProtocol.TIDEGATE
        failures = 0
        while True:
            failure: Exception | None = None
            try:
                await (self._ask_state(target, replica) if ours else self._ask_whether_alive(target, replica))
                failures = 0
            except Exception as exc:
                failure = exc
                failures = _TOLERATED if isinstance(exc, UpstreamUnreachable) else failures + 1
                if not isinstance(exc, (UpstreamError, ValidationError)) and failures == 1:
                    log_crash(_logger, f"the poll of {target.name}", exc)
                if failures >= _TOLERATED:
                    replica.mark_unreachable(_why(exc))
                    target.pool.review()
            if self._connectivity is not None:
                self._connectivity.probed(target.name, replica.endpoint.text, _evidence(failure))
            await asyncio.sleep(self._interval_s if ours else self._other_interval_s)

    async def _renew(self, target: Target) -> None:
        """Look for new certificates, credentials and addresses. What cannot be read leaves the old ones in use."""
        asked = self._renewals[target.name]
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._renew_s):
                    await asked.wait()
            asked.clear()
            try:
                target.renew_credential()
                for replica in target.pool:
                    await replica.renew()
            except Exception as exc:
                if isinstance(exc, ValueError):
                    _logger.error("%s keeps what it has: %s", target.name, exc)
                else:
                    log_crash(_logger, f"renewing what {target.name} is reached by", exc)

    async def _ask_state(self, target: Target, replica: Replica) -> None:
        body = await replica.control.get(paths.STATE, timeout_s=self._timeout_s)
        target.reported(replica, RuntimeState.model_validate_json(body))

    async def _ask_whether_alive(self, target: Target, replica: Replica) -> None:
        path = target.settings.health_path
        await replica.control.get(path, timeout_s=self._timeout_s, accepted=_SIGNS_OF_LIFE)
        replica.answered()
        target.pool.review()


def _why(failure: Exception) -> str:
    return failure.message if isinstance(failure, UpstreamError) else "its state is unreadable"


def _evidence(failure: Exception | None) -> Evidence:
    if failure is None:
        return Evidence.ANSWERED
    return Evidence.CAPTIVE if isinstance(failure, UpstreamCaptive) else Evidence.FAILED

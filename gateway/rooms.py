"""What several routes share, and what is open until the end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI

from gateway.access.key_file import KeyFile
from gateway.access.key_ring import KeyRing
from gateway.access.key_watch import KeyWatch
from gateway.access.tokens import Tokens
from gateway.access.usage_file import UsageFile
from gateway.detectors.second_tier import SecondTier
from gateway.device import DeviceWatch
from gateway.identity import Identity
from gateway.kept.flusher import Flusher
from gateway.kept.room import KeptRoom
from gateway.metrics.requests import RequestMetrics
from gateway.policies.holder import PolicyHolder
from gateway.policies.rollout import Rollout
from gateway.policies.start import Begun
from gateway.policies.store import VersionStore
from gateway.policies.watch import PolicyWatch
from gateway.policies.wiring import demands_of
from gateway.quota import Quotas
from gateway.records.log import RecordLog
from gateway.settings import Settings
from gateway.state.keys import Keys
from gateway.state.label_store import LabelStore
from gateway.state.taint import Taints
from gateway.targets.connectivity import ConnectivityWatch
from gateway.targets.poller import Poller
from gateway.targets.registry import Targets
from observability import Meters
from serving.in_flight import InFlight

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rooms:
    """What several routes share, and what is open until the end."""

    targets: Targets
    poller: Poller
    rollout: Rollout
    watch: PolicyWatch
    second_tier: SecondTier
    taints: Taints
    records: RecordLog
    admission: InFlight
    connectivity: ConnectivityWatch
    meters: Meters
    metrics: RequestMetrics
    identity: Identity
    tokens: Tokens | None
    key_watch: KeyWatch
    quotas: Quotas
    usage: UsageFile
    kept: KeptRoom

    def ask_to_reload(self) -> None:
        """Have the files read again that change while the gateway runs."""
        self.watch.ask()
        self.poller.ask_to_renew()
        self.key_watch.ask()
        if self.tokens is not None:
            self.tokens.ask()

    @asynccontextmanager
    async def lifespan(self, _: FastAPI, *, flusher: Flusher | None) -> AsyncIterator[None]:
        """Do what goes on beside requests, the outbox's part too where there is one; close the rooms at the end."""
        tasks = [
            asyncio.create_task(self.poller.run(), name="poller"),
            asyncio.create_task(self.watch.run(), name="policy-watch"),
            asyncio.create_task(self.key_watch.run(), name="key-watch"),
            asyncio.create_task(self.usage.run(self.quotas), name="usage"),
            asyncio.create_task(self.kept.answers.run(), name="kept-answers"),
            asyncio.create_task(self.second_tier.run(), name="detectors"),
        ]
        if self.tokens is not None:
            tasks.append(asyncio.create_task(self.tokens.run(), name="issuers"))
        if flusher is not None:
            tasks.append(asyncio.create_task(flusher.run(), name="flusher"))
        for task in tasks:
            task.add_done_callback(_tell_if_it_failed)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.targets.aclose()
            if self.tokens is not None:
                await self.tokens.aclose()
            await self.second_tier.aclose()
            self.usage.write(self.quotas.kept())
            self.records.close()
            self.taints.close()
            self.kept.close()


def _tell_if_it_failed(task: asyncio.Task[None]) -> None:
    """Log what ended a task that should have gone on until the end: nobody awaits it before that."""
    if not task.cancelled() and (exc := task.exception()) is not None:
        _logger.critical("%s has ended and is missing from now on", task.get_name(), exc_info=exc)


def open_rooms(
    settings: Settings,
    begun: Begun,
    keys: Keys,
    draw: random.Random,
    *,
    clock: Callable[[], float],
    wall: Callable[[], float],
) -> Rooms:
    """Open what the routes share.

    Raises:
        ValueError: A credential, the file of keys or the outbox cannot be used.
        OSError: The state folder cannot be used.
    """
    rollout = _rollout(settings, begun, wall)
    connectivity = ConnectivityWatch(_elsewhere(rollout.holder), clock=clock, metered=settings.metered)
    targets = Targets.from_settings(
        settings, device=DeviceWatch(lambda: connectivity.state, clock=clock), clock=clock, draw=draw
    )
    meters, telling = Meters(), settings.telemetry
    ring = KeyRing(settings.auth)
    key_watch = KeyWatch(KeyFile(settings.folder.caller_keys), ring)
    tokens = Tokens(settings.auth, wall=wall, clock=clock) if settings.auth.issuers else None
    identity = Identity(settings.auth, ring, tokens, wall=wall, clock=clock)
    usage = UsageFile(settings.folder.usage_file, wall=wall)
    return Rooms(
        targets,
        Poller(targets, connectivity=connectivity),
        rollout,
        PolicyWatch(rollout, on_change=settings.rollout.watch),
        SecondTier.from_settings(settings.detectors, settings.targets.get("edge")),
        Taints(LabelStore(settings.folder.labels_file, wall=wall), keys),
        RecordLog.from_settings(settings),
        InFlight(settings.limits.concurrent_requests, settings.limits.body_bytes_in_flight, clock=clock),
        connectivity,
        meters,
        RequestMetrics(meters, targets, telling.genai_conventions, tenants=telling.metric_tenants),
        identity,
        tokens,
        key_watch,
        Quotas(clock=clock, kept=usage.load()),
        usage,
        KeptRoom.open(settings, keys, may_defer=identity.anybody_may("defer"), clock=clock, wall=wall),
    )


def _rollout(settings: Settings, begun: Begun, wall: Callable[[], float]) -> Rollout:
    """The policies in force, and the way for others to come into force."""
    store = VersionStore(settings.folder.policies)
    rollout = Rollout(PolicyHolder(begun.in_force), store, demands_of(settings), settings.policy, wall=wall)
    if begun.fault is not None:
        rollout.mark_stale(begun.fault)
    return rollout


def _elsewhere(policies: PolicyHolder) -> Callable[[str], bool]:
    """Whether a target is not this device, by the policy in force."""

    def is_elsewhere(name: str) -> bool:
        promise = policies.current.policy.targets.get(name)
        return promise is not None and not promise.on_device

    return is_elsewhere

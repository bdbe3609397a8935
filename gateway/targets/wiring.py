"""From what the settings say of a target to its addresses, each behind doors of its own."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

from yarl import URL

from gateway.egress.control import ControlDoor
from gateway.egress.door import Door
from gateway.egress.endpoint import Endpoint
from gateway.egress.session import Reach
from gateway.egress.tls import TlsSource
from gateway.egress.transport import AiohttpTransport
from gateway.settings import Settings
from gateway.targets.breaker import BreakerLimits
from gateway.targets.pool import Pool
from gateway.targets.replica import Replica
from gateway.targets.retry_budget import RetryBudget
from gateway.targets.target import Target

_PROBES_AT_ONCE = 2


def wire_target(name: str, settings: Settings, *, clock: Callable[[], float], draw: random.Random) -> Target:
    """Make a target with all its addresses; nothing is opened yet.

    Raises:
        ValueError: Its credential cannot be read.
    """
    own = settings.targets[name]
    credential = own.credential_headers()
    limits = BreakerLimits(**settings.breaker.model_dump())
    replicas = [_wire_replica(name, Endpoint.parse(text), settings, credential, limits) for text in own.endpoints]
    pool = Pool(name, replicas, max_waiting=own.max_waiting, clock=clock, draw=draw)
    retries = RetryBudget(share=settings.attempts.retry_share, income_per_s=settings.attempts.retries_per_s)
    return Target(name, own, credential, pool, retries)


def _wire_replica(
    name: str, endpoint: Endpoint, settings: Settings, credential: dict[str, str], limits: BreakerLimits
) -> Replica:
    own = settings.targets[name]
    reach = Reach(
        endpoint,
        connect_timeout_s=own.timeouts.over(settings.timeouts).connect_s,
        max_connections=own.max_connections,
        proxy=None if own.proxy is None else URL(own.proxy),
        server_name=own.tls.server_name,
    )
    requests = AiohttpTransport(reach, TlsSource(own.tls))
    probes = AiohttpTransport(dataclasses.replace(reach, max_connections=_PROBES_AT_ONCE), TlsSource(own.tls))

    async def renew() -> None:
        await requests.renew()
        await probes.renew()

    return Replica(
        endpoint,
        Door(name, requests),
        ControlDoor(endpoint, probes, credential),
        places=own.max_connections,
        breaker=limits,
        renew=renew,
    )

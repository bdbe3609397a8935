"""The targets: whether each of their addresses answers, through the door that probes go through."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from gateway.cli.doctor.finding import Finding, fail, ok, warn
from gateway.settings import Settings
from gateway.target_settings import TargetProtocol
from gateway.targets.registry import Targets
from gateway.targets.replica import Replica
from gateway.targets.target import Target
from inference_protocol import paths
from inference_protocol.errors import (
    UpstreamCaptive,
    UpstreamError,
    UpstreamProtocol,
    UpstreamTimedOut,
    UpstreamUnreachable,
)

_TIMEOUT_S = 5.0
# What a server that lives may answer at a path that it need not have.
_ALIVE = frozenset({200, 204, 404, 405})


def targets(settings: Settings) -> Iterator[Finding]:
    """Probe every address of every target, all at once."""
    try:
        wired = Targets.from_settings(settings)
    except ValueError:
        return  # a credential cannot be read, which is told elsewhere
    yield from asyncio.run(_probe_all(wired, _started_here(settings)))


def _started_here(settings: Settings) -> frozenset[str]:
    """The targets that `tidegate up` starts, which need not run now."""
    own = {"edge"} if settings.starts_edge else set()
    return frozenset(own | ({"cloud"} if settings.stand_in_port is not None else set()))


async def _probe_all(wired: Targets, started_here: frozenset[str]) -> list[Finding]:
    try:
        probes = [
            _probe(target, replica, is_ours=target.name in started_here) for target in wired for replica in target.pool
        ]
        return await asyncio.gather(*probes)
    finally:
        await wired.aclose()


async def _probe(target: Target, replica: Replica, *, is_ours: bool) -> Finding:
    check, field = f"target {target.name}", f"targets.{target.name}"
    ours = target.settings.protocol is TargetProtocol.TIDEGATE
    path = paths.STATE if ours else target.settings.health_path
    began = time.monotonic()
    try:
        await replica.renew()
        await replica.control.get(path, timeout_s=_TIMEOUT_S, accepted={200} if ours else _ALIVE)
    except (UpstreamUnreachable, UpstreamTimedOut) as exc:
        if is_ours:
            return warn(check, _line(exc), "`tidegate up` starts it")
        return fail(check, _line(exc), f"see that it runs and can be reached from here, or mend `{field}.endpoints`")
    except UpstreamCaptive as exc:
        return fail(check, _line(exc), "sign in to this network, or mend the endpoint: it is no inference server")
    except UpstreamProtocol as exc:
        return fail(check, _line(exc), f"mend `{field}.credential`, `{field}.protocol` or `{field}.health_path`")
    except (UpstreamError, OSError, ValueError) as exc:
        return fail(check, _line(exc), f"mend `{field}.tls` or what stands between")
    return ok(check, f"{replica.endpoint.text} answers in {1000 * (time.monotonic() - began):.0f} ms")


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")

"""`/livez`: the loop turns. `/readyz`: a policy is loaded and something can answer; draining is not ready."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from gateway.api.request_headers import read_headers
from gateway.identity import Identity
from gateway.policies.rollout import Rollout
from gateway.targets.registry import Targets
from inference_protocol.errors import AuthenticationFailed, Unavailable
from routing_policies.snapshot import Health
from serving.answers import send_json
from serving.in_flight import InFlight


class LiveEndpoint:
    """Says that the process turns its loop."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at all."""
        await send_json(send, 200, b'{"status":"live"}')


class ReadyEndpoint:
    """Says whether requests can be answered, and how each target stands."""

    def __init__(self, targets: Targets, rollout: Rollout, admission: InFlight, identity: Identity) -> None:
        """Look at these rooms; callers, by `identity`, are told how each stands, and others whether all is well."""
        self._identity = identity
        self._targets = targets
        self._rollout = rollout
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 when ready, 503 when not."""
        ready = any(target.health is Health.UP for target in self._targets) and not self._admission.draining
        status = "draining" if self._admission.draining else "ready" if ready else "starting"
        body = {"status": status, **(self._details() if await self._is_caller(scope) else {})}
        await send_json(send, 200 if ready else 503, orjson.dumps(body))

    async def _is_caller(self, scope: Scope) -> bool:
        try:
            await self._identity.identify(read_headers(scope))
        except (AuthenticationFailed, Unavailable):
            return False
        return True

    def _details(self) -> dict[str, Any]:
        stable, stale = self._rollout.holder.in_force.stable, self._rollout.stale
        policy = {
            "name": stable.loaded.policy.name,
            "digest": stable.loaded.digest,
            "version": stable.number,
            # Where its file is wrong, and not what stands there: that is for operators.
            "stale": None if stale is None else {"line": stale.fault.line, "column": stale.fault.column},
            "waits_for_signatures": self._rollout.held is not None,
        }
        targets = {
            target.name: {
                "health": target.health.value,
                "detail": target.detail,
                "models": list(target.settings.models),
                "provider": target.state.provider if target.state else None,
            }
            for target in self._targets
        }
        return {"policy": policy, "targets": targets}

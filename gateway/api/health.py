"""`/livez`: the loop turns. `/readyz`: a policy is loaded and something can answer; draining is not ready."""

from __future__ import annotations

import orjson
from starlette.types import Receive, Scope, Send

from gateway.policies import PolicyHolder
from gateway.targets.registry import Targets
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

    def __init__(self, targets: Targets, policies: PolicyHolder, admission: InFlight) -> None:
        """Look at these rooms."""
        self._targets = targets
        self._policies = policies
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 when ready, 503 when not."""
        ready = any(target.health is Health.UP for target in self._targets) and not self._admission.draining
        status = "draining" if self._admission.draining else "ready" if ready else "starting"
        policy = self._policies.current
        targets = {
            target.name: {
                "health": target.health.value,
                "detail": target.detail,
                "models": list(target.settings.models),
                "provider": target.state.provider if target.state else None,
            }
            for target in self._targets
        }
        body = {"status": status, "policy": {"name": policy.policy.name, "digest": policy.digest}, "targets": targets}
        await send_json(send, 200 if ready else 503, orjson.dumps(body))

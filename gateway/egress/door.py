"""The one door out. It opens no connection unless it is handed what shows that this body may go to this target."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from gateway.egress.body import OutboundBody
from inference_protocol.errors import EgressRefused
from routing_policies.policy.loader import LoadedPolicy
from routing_policies.verdict import Transform, Verdict

PERMIT = "tidegate.permit"


@dataclass(frozen=True, slots=True)
class Permit:
    """What an attempt shows at the door.

    Attributes:
        body: What it wants to send.
        verdict: The decision that it acts on.
        policy: The policy that the decision was made under.
    """

    body: OutboundBody
    verdict: Verdict
    policy: LoadedPolicy


class Door(httpx.AsyncBaseTransport):
    """Guards the transport of one target. Everything that reaches the target went through here."""

    def __init__(self, target: str, inner: httpx.AsyncBaseTransport) -> None:
        """Bind the door to a target's name and its transport."""
        self._target = target
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Check the permit in `request.extensions[PERMIT]`, then send.

        Raises:
            EgressRefused: There is no permit, or it does not cover this body, this target and this label.
            httpx.TransportError: As the inner transport.
        """
        permit = request.extensions.get(PERMIT)
        if not isinstance(permit, Permit):
            raise EgressRefused(f"Nothing was sent to {self._target!r}: the attempt showed no permit.")
        self._check(permit, request)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()

    def _check(self, permit: Permit, request: httpx.Request) -> None:
        if not isinstance(permit.body, OutboundBody) or request.read() != permit.body.content:
            raise EgressRefused(f"Nothing was sent to {self._target!r}: the body is not the one that was cleared.")
        named = next((e for e in permit.verdict.eligible if e.target == self._target), None)
        if named is None or named.transform is not permit.body.transform:
            raise EgressRefused(f"Nothing was sent to {self._target!r}: the verdict does not name it.")
        if permit.policy.digest != permit.verdict.policy_digest:
            raise EgressRefused(f"Nothing was sent to {self._target!r}: the verdict is of another policy.")
        promise = permit.policy.policy.targets.get(self._target)
        if promise is None:
            raise EgressRefused(f"Nothing was sent to {self._target!r}: the policy does not name it.")
        label = permit.verdict.label
        if permit.body.transform is Transform.PSEUDONYMIZE:
            label = label.without_findings(
                permit.body.replaced.intersection(promise.pseudonymize), permit.policy.label_rules
            )
        if label.level > promise.clearance:
            raise EgressRefused(f"Nothing was sent to {self._target!r}: the label is above its clearance.")
        if not all(map(promise.allows_tag, label.tags)):
            raise EgressRefused(f"Nothing was sent to {self._target!r}: it may not be sent data with these tags.")

"""The targets that settings name, and the snapshot of them that one decision is made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.egress.control import ControlDoor
from gateway.egress.door import Door
from gateway.egress.endpoint import Endpoint
from gateway.egress.transport import AiohttpTransport
from gateway.settings import Settings
from gateway.targets.target import Target
from routing_policies.latency_model import predict
from routing_policies.signals.size import Size
from routing_policies.snapshot import Snapshot, TargetSnapshot


class Targets:
    """All targets by name, in the settings' order."""

    def __init__(self, targets: Mapping[str, Target]) -> None:
        """Hold the targets."""
        self._targets = dict(targets)

    @classmethod
    def from_settings(cls, settings: Settings) -> Targets:
        """Wire a target for each one that the settings name."""
        return cls({name: _wire(name, settings) for name in settings.targets})

    def __getitem__(self, name: str) -> Target:
        """Return a target by name."""
        return self._targets[name]

    def __iter__(self) -> Iterator[Target]:
        """Yield the targets in order."""
        return iter(self._targets.values())

    def public_models(self) -> list[str]:
        """Every public model name, in the order that settings give."""
        return list(dict.fromkeys(model for target in self for model in target.settings.models))

    def windows(self, model: str) -> Mapping[str, int | None]:
        """The window that each target has for a model; `None` where nobody has said."""
        return {target.name: target.capabilities(model).window for target in self}

    def snapshot(self, model: str, size: Size, output_cap: int, *, now: float, seed: int) -> Snapshot:
        """Freeze what is known, with a prediction for this request at each target."""
        found: dict[str, TargetSnapshot] = {}
        for target in self:
            found[target.name] = TargetSnapshot(
                name=target.name,
                health=target.health,
                capabilities=target.capabilities(model),
                state=target.state,
                prediction=predict(
                    target.state, target.observations, size.tokens, output_cap, in_flight=target.in_flight
                ),
            )
        return Snapshot(found, now=now, seed=seed)

    async def aclose(self) -> None:
        """Close every connection."""
        for target in self:
            await target.door.aclose()
            await target.control.aclose()


def _wire(name: str, settings: Settings) -> Target:
    own = settings.targets[name]
    endpoint = Endpoint.parse(own.endpoints[0])
    connect_s = settings.timeouts.connect_s

    def transport(most: int) -> AiohttpTransport:
        return AiohttpTransport(endpoint, connect_timeout_s=connect_s, max_connections=most)

    credential = own.credential_headers()
    control = ControlDoor(endpoint, transport(2), credential)
    return Target(name, own, endpoint, credential, Door(name, transport(own.max_connections)), control)

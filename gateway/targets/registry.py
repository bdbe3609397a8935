"""The targets that settings name, and the snapshot of them that one decision is made from."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping

from gateway.settings import Settings
from gateway.targets.target import Target
from gateway.targets.wiring import wire_target
from inference_protocol.request import GENERATES, Task
from routing_policies.latency_model import predict
from routing_policies.signals.size import Size
from routing_policies.snapshot import Device, Snapshot, TargetSnapshot


class Targets:
    """All targets by name, in the settings' order."""

    def __init__(self, targets: Mapping[str, Target], device: Callable[[], Device] = Device) -> None:
        """Hold the targets.

        Args:
            targets: By name.
            device: Gives the state of the device that this runs on.
        """
        self._targets = dict(targets)
        self._device = device

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        device: Callable[[], Device] = Device,
        clock: Callable[[], float] = time.monotonic,
        draw: random.Random | None = None,
    ) -> Targets:
        """Wire a target for each one that the settings name.

        Args:
            settings: Of this installation.
            device: Gives the state of the device that this runs on.
            clock: Monotonic seconds.
            draw: Draws the addresses that are compared.

        Raises:
            ValueError: A credential cannot be read.
        """
        draw = draw or random.Random()  # noqa: S311  # it keeps no secret
        return cls({name: wire_target(name, settings, clock=clock, draw=draw) for name in settings.targets}, device)

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

    def snapshot(self, task: Task, model: str, size: Size, output_cap: int, *, now: float, seed: int) -> Snapshot:
        """Freeze what is known, with a prediction for this request at each target."""
        found: dict[str, TargetSnapshot] = {}
        for target in self:
            replica = target.pool.best()
            standing = target.standing(now)
            found[target.name] = TargetSnapshot(
                name=target.name,
                health=standing.health,
                capabilities=target.capabilities(model),
                state=replica.state,
                prediction=predict(
                    replica.state if task in GENERATES else None,  # it tells how fast it generates
                    target.observed(task),
                    size.tokens,
                    output_cap,
                    in_flight=replica.in_flight,
                ),
                back_in_s=standing.back_in_s,
                waiting=target.waiting(replica),
            )
        return Snapshot(found, now=now, seed=seed, device=self._device())

    async def aclose(self) -> None:
        """Close every connection."""
        for target in self:
            for replica in target.pool:
                await replica.door.aclose()
                await replica.control.aclose()

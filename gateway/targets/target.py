"""One target: how to reach it, and what is known of it now."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from gateway.egress.control import ControlDoor
from gateway.egress.door import Door
from gateway.egress.endpoint import Endpoint
from gateway.settings import TargetProtocol, TargetSettings
from inference_protocol.capability import FURTHER_PARAMETERS
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus, ServedModel
from routing_policies.latency_model import Observations
from routing_policies.snapshot import Capabilities, Health

_HEALTH_OF = {
    RuntimeStatus.READY: Health.UP,
    RuntimeStatus.STARTING: Health.STARTING,
    RuntimeStatus.DRAINING: Health.DRAINING,
    RuntimeStatus.FAILED: Health.DOWN,
}


class Target:
    """One target's address, door and state. Its state changes only through the methods here.

    Attributes:
        credential: Its own `Authorization` header; bound to its endpoint, never a caller's.
        in_flight: Attempts of ours that it is working on.
        observations: What its answers have taught the latency model.
        detail: For a person: why it is not up.
    """

    def __init__(  # the wiring of one target, called in one place
        self,
        name: str,
        settings: TargetSettings,
        endpoint: Endpoint,
        credential: Mapping[str, str],
        door: Door,
        control: ControlDoor,
    ) -> None:
        """Wire a target; nothing is opened yet. `credential` is its `Authorization` header, or nothing."""
        self.name = name
        self.settings = settings
        self.endpoint = endpoint
        self.credential = credential
        self.door = door
        self.control = control
        self.health = Health.UNKNOWN
        self.detail: str | None = "not asked yet"
        self.state: RuntimeState | None = None
        self.in_flight = 0
        self.observations = Observations()
        self._urls: dict[str, httpx.URL] = {}

    def url(self, path: str) -> httpx.URL:
        """The address of a path at this target."""
        if path not in self._urls:
            self._urls[path] = self.endpoint.url(path)
        return self._urls[path]

    def enter(self) -> None:
        """Count an attempt in."""
        self.in_flight += 1

    def leave(self) -> None:
        """Count an attempt out."""
        self.in_flight -= 1

    def reported(self, state: RuntimeState) -> None:
        """Take in a runtime's own report."""
        self.state = state
        self.health = _HEALTH_OF[state.status]
        self.detail = state.detail

    def answered(self) -> None:
        """A probe of a target that reports nothing was answered."""
        self.health = Health.UP
        self.detail = None

    def mark_unreachable(self, detail: str = "no connection") -> None:
        """Nobody listens there; the next successful probe brings it back."""
        self.state = None
        self.health = Health.DOWN
        self.detail = detail

    def capabilities(self, public_model: str) -> Capabilities:
        """What it can do under a public model name: its own word where it gives one, else the settings'."""
        served = self.settings.models.get(public_model)
        if served is None:
            return Capabilities(None)
        told = self._served(served)
        if told is not None:
            return Capabilities(
                served,
                window=told.window,
                tools=told.tools,
                json_schema=told.json_schema,
                images=told.images,
                audio=told.audio,
                logprobs=told.logprobs,
                max_n=told.max_n,
                parameters=told.parameters,
            )
        if self.settings.protocol is TargetProtocol.TIDEGATE:
            return Capabilities(served)
        can: Mapping[str, bool] = self.settings.capabilities.model_dump()
        # Who speaks OpenAI's protocol knows its parameters, or says itself which it does not.
        return Capabilities(
            served, self.settings.window, max_n=self.settings.max_n, parameters=FURTHER_PARAMETERS, **can
        )

    def _served(self, name: str) -> ServedModel | None:
        if self.state is None:
            return None
        return next((model for model in self.state.models if model.id == name), None)

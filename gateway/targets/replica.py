"""One address of a target, and what is known of it now."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import httpx

from gateway.egress.control import ControlDoor
from gateway.egress.door import Door
from gateway.egress.endpoint import Endpoint
from gateway.targets.breaker import Breaker, BreakerLimits
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus
from routing_policies.snapshot import Health

_HEALTH_OF = {
    RuntimeStatus.READY: Health.UP,
    RuntimeStatus.STARTING: Health.STARTING,
    RuntimeStatus.DRAINING: Health.DRAINING,
    RuntimeStatus.FAILED: Health.DOWN,
}
_MAY_BE_ASKED = frozenset({Health.UP, Health.UNKNOWN})


class Replica:
    """Its doors and its state, which changes only through the methods here.

    Attributes:
        door: For requests.
        control: For probes.
        health: What the last probes found. Whether it may be asked also hangs on breaker, rest and places.
        detail: For a person: why it is not up.
        state: What it last reported; `None` where it reports nothing, or nothing current.
        in_flight: Attempts of ours that it is working on.
        rests_until: Monotonic seconds until which it asked to be left alone.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        door: Door,
        control: ControlDoor,
        *,
        places: int,
        breaker: BreakerLimits | None = None,
        renew: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Wire an address; nothing is opened yet.

        Args:
            endpoint: The address.
            door: Leads there, for requests.
            control: Leads there, for probes.
            places: Attempts that may be made there at once.
            breaker: When it is left alone.
            renew: Lets new requests make new connections where certificates or addresses have changed.
        """
        self.endpoint = endpoint
        self.door = door
        self.control = control
        self.places = places
        self.breaker = Breaker(breaker or BreakerLimits())
        self.health = Health.UNKNOWN
        self.detail: str | None = "not asked yet"
        self.state: RuntimeState | None = None
        self.in_flight = 0
        self.rests_until = -math.inf
        self._urls: dict[str, httpx.URL] = {}
        self._renew = renew

    async def renew(self) -> None:
        """Let new requests make new connections, where what they are made by has changed.

        Raises:
            ValueError: New certificates cannot be read; the old ones stay in use.
        """
        if self._renew is not None:
            await self._renew()

    def url(self, path: str) -> httpx.URL:
        """The address of a path here."""
        if path not in self._urls:
            self._urls[path] = self.endpoint.url(path)
        return self._urls[path]

    def may_be_asked(self, now: float) -> bool:
        """Whether nothing but a free place is wanted for an attempt."""
        return self.health in _MAY_BE_ASKED and now >= self.rests_until and self.breaker.allows(now)

    @property
    def has_place(self) -> bool:
        """Whether one more attempt may be made at once."""
        return self.in_flight < self.places

    @property
    def load(self) -> int:
        """Requests there: by its own report, and never fewer than are ours."""
        state = self.state
        return self.in_flight if state is None else max(self.in_flight, state.running + state.waiting)

    def standing(self, now: float) -> tuple[Health, str | None, float | None]:
        """Its health with breaker and rest taken in, why, and the seconds after which that will have changed."""
        if self.health not in _MAY_BE_ASKED:
            return self.health, self.detail, None
        if now < self.rests_until:
            wait_s = self.rests_until - now
            return Health.RESTING, f"asked to be left alone for {wait_s:.1f} s", wait_s
        if not self.breaker.allows(now):
            return Health.FAILING, "failed several times in a row", self.breaker.opens_in_s(now)
        return self.health, self.detail, None

    def reported(self, state: RuntimeState) -> None:
        """Take in a runtime's own report."""
        self.state = state
        self.health = _HEALTH_OF[state.status]
        self.detail = state.detail

    def answered(self) -> None:
        """A probe of a server that reports nothing was answered."""
        self.health = Health.UP
        self.detail = None

    def mark_unreachable(self, detail: str = "no connection") -> None:
        """Nobody listens there; the next successful probe brings it back."""
        self.state = None
        self.health = Health.DOWN
        self.detail = detail

    def rest(self, until: float) -> None:
        """Leave it alone until then, as it asked; the longest wish counts."""
        self.rests_until = max(self.rests_until, until)

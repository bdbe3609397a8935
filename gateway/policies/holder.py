"""The policies in force. A request keeps the one that it began with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from routing_policies.policy.loaded import LoadedPolicy

_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class Version:
    """A policy with the number that this installation knows it by.

    Attributes:
        number: 1 for the first that was ever in force here; the same document keeps its number.
        sha256: Of the document that it was read from, hex.
    """

    number: int
    sha256: str
    loaded: LoadedPolicy


class Arm(StrEnum):
    """Which of the policies in force decided a request."""

    STABLE = "stable"
    CANARY = "canary"


class StickyBy(StrEnum):
    """What always meets the same policy while a canary runs."""

    TENANT = "tenant"
    CONVERSATION = "conversation"


@dataclass(frozen=True, slots=True)
class Canary:
    """A version that decides for some requests, so that they are answered by it."""

    version: Version
    percent: float
    by: StickyBy = StickyBy.TENANT

    def draws(self, seed: int) -> bool:
        """Whether a request with that seed is among them."""
        return seed % _PARTS < self.percent / 100 * _PARTS


@dataclass(frozen=True, slots=True)
class Shadow:
    """A version that is asked what it would decide, and never acted on."""

    version: Version
    percent: float = 100.0

    def draws(self, seed: int) -> bool:
        """Whether it is asked for a request with that seed; independent of a canary's draw from the same one."""
        return seed // _PARTS % _PARTS < self.percent / 100 * _PARTS


@dataclass(frozen=True, slots=True)
class InForce:
    """All that is in force at one moment. Replaced as a whole, so that no request meets parts of two."""

    stable: Version
    canary: Canary | None = None
    shadow: Shadow | None = None

    def deciding(self, seed: int) -> tuple[Version, Arm]:
        """Return the version that decides a request with that seed, and as what."""
        if self.canary is not None and self.canary.draws(seed):
            return self.canary.version, Arm.CANARY
        return self.stable, Arm.STABLE

    def with_stable(self, version: Version) -> Self:
        """Return this with another stable version. A canary was compared with the one before, so it ends."""
        return replace(self, stable=version, canary=None)


class PolicyHolder:
    """Holds what is in force; replacing it is one assignment, so no request ever sees half of a change."""

    def __init__(self, in_force: InForce) -> None:
        """Start with these policies."""
        self._in_force = in_force

    @property
    def in_force(self) -> InForce:
        """What a request that begins now is decided by."""
        return self._in_force

    @property
    def current(self) -> LoadedPolicy:
        """The stable policy."""
        return self._in_force.stable.loaded

    def put(self, in_force: InForce) -> None:
        """Replace what is in force, for all requests that begin from now on."""
        self._in_force = in_force

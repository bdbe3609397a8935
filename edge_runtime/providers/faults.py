"""What a provider can do wrong."""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """In a probe or in service."""

    CRASHED = "crashed"
    HUNG = "hung"
    MEMORY = "memory"
    REFUSED = "refused"
    FREE_SHAPES = "free-shapes"
    CLAIMS_NOTHING = "claims-no-node"
    DIFFERS = "differs"
    NOT_FINITE = "not-finite"


class ProviderFailed(Exception):
    """A provider did not do what it was asked. The message holds no content of a request.

    Attributes:
        fault: What it did instead.
    """

    def __init__(self, fault: Fault, detail: str) -> None:
        """Say what happened, for a person."""
        super().__init__(detail)
        self.fault = fault

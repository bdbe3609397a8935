"""How targets are reached: waiting, trying again, TLS. A part of the settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Frozen(BaseModel):
    """A part of the settings: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TimeoutSettings(Frozen):
    """Bounds on waiting, in seconds, beside the callers' own budgets."""

    body_s: float = Field(default=30.0, gt=0)
    connect_s: float = Field(default=2.0, gt=0)
    first_content_s: float = Field(default=120.0, gt=0)
    total_s: float = Field(default=600.0, gt=0)
    idle_s: float = Field(default=60.0, gt=0)
    reader_s: float = Field(default=60.0, gt=0)
    ping_s: float = Field(default=15.0, gt=0)
    drain_s: float = Field(default=30.0, ge=0)


class TargetTimeouts(Frozen):
    """Those of one target, where they differ from everybody's."""

    connect_s: float | None = Field(default=None, gt=0)
    first_content_s: float | None = Field(default=None, gt=0)
    total_s: float | None = Field(default=None, gt=0)
    idle_s: float | None = Field(default=None, gt=0)

    def over(self, general: TimeoutSettings) -> TimeoutSettings:
        """Return everybody's timeouts with these in their place."""
        return general.model_copy(update=self.model_dump(exclude_none=True))


class AttemptSettings(Frozen):
    """What is done where an attempt fails or is slow.

    Attributes:
        most: Attempts for one request, all targets together.
        retry_share: Further attempts at a target, as a share of the requests that it may answer.
        retries_per_s: Further attempts at a target each second, whatever the requests.
        longest_wait_s: A request is not held back longer than this before it is sent to the same target again.
        longest_rest_s: A target's wish to be left alone counts up to this.
        hedge_after: When a second target is asked beside a first that is slow: `never`, `p95` of the first's predicted
            time to first content, or seconds.
    """

    most: int = Field(default=4, gt=0)
    retry_share: float = Field(default=0.2, ge=0, le=1)
    retries_per_s: float = Field(default=10.0, ge=0)
    longest_wait_s: float = Field(default=2.0, ge=0)
    longest_rest_s: float = Field(default=60.0, ge=0)
    hedge_after: Literal["never", "p95"] | float = "never"

    @model_validator(mode="after")
    def _hedges_later(self) -> Self:
        if isinstance(self.hedge_after, float) and self.hedge_after <= 0:
            raise ValueError("hedge_after must be `never`, `p95` or seconds above zero")
        return self


class BreakerSettings(Frozen):
    """When an address that fails is left alone, and for how long."""

    faults: int = Field(default=5, gt=0)
    open_s: float = Field(default=1.0, gt=0)
    longest_open_s: float = Field(default=30.0, gt=0)


class TlsSettings(Frozen):
    """TLS to one target, beyond the system's own certificates. Files that change are read again without a restart.

    Attributes:
        ca_file: PEM; these authorities are trusted for this target, and no others.
        certificate_file: PEM; shown to the target, with `key_file`.
        server_name: Asked for and checked instead of the endpoint's host.
    """

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _whole_pair(self) -> Self:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("give both of `certificate_file` and `key_file`, or neither")
        return self

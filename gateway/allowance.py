"""What a caller may take, and the words that settings of callers share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.reach_settings import Frozen

ClassWord = Literal["public", "internal", "confidential", "restricted"]
Name = Annotated[str, Field(min_length=1, max_length=128)]


class Allowance(Frozen):
    """What a caller, or all of a tenant's together, may take. Nothing set is no limit.

    Attributes:
        tokens_per_minute: Of prompts and answers together, as is `tokens_per_day`.
    """

    concurrent_requests: int | None = Field(default=None, gt=0)
    requests_per_minute: int | None = Field(default=None, gt=0)
    tokens_per_minute: int | None = Field(default=None, gt=0)
    tokens_per_day: int | None = Field(default=None, gt=0)

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is set."""
        return all(getattr(self, name) is None for name in Allowance.model_fields)

"""Which execution providers may run which work: what the settings say to the edge runtime, as one JSON argument."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, field_validator

CPU = "cpu"


class Work(StrEnum):
    """Classes of work, since a provider that is good at one may be bad at another."""

    GENERATION = "generation"
    EMBEDDINGS = "embeddings"
    TENSORS = "tensors"


class ProviderPolicy(BaseModel):
    """What an operator chooses. The CPU is always there for what nothing else may or can do.

    Attributes:
        allow: Names of providers that may serve. A runtime loads nothing of the others, not even to look for devices.
        deny: Names that may not, whatever else is said.
        prefer: Work to names, best first. Work that is not named goes to whatever was measured to be fastest here.
        options: Name to options of the provider, as ONNX Runtime calls them.
        tolerance: Largest difference from the CPU's numbers, as a part of the largest of them.
        timeout_s: Longest time for a probe.
        run_timeout_s: Longest time for a run in service; then the CPU answers, and the provider is in quarantine.
        memory_mib: Most memory of a provider's process; half of what is available, if nothing is said.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    allow: tuple[str, ...] = (CPU,)
    deny: tuple[str, ...] = ()
    prefer: dict[Work, tuple[str, ...]] = Field(default_factory=dict)
    options: dict[str, dict[str, str]] = Field(default_factory=dict)
    tolerance: float = Field(default=1e-3, gt=0)
    timeout_s: float = Field(default=120.0, gt=0)
    run_timeout_s: float = Field(default=10.0, gt=0)
    memory_mib: int | None = Field(default=None, gt=0)

    @field_validator("prefer")
    @classmethod
    def _generation_is_the_cpus(cls, prefer: dict[Work, tuple[str, ...]]) -> dict[Work, tuple[str, ...]]:
        others = [name for name in prefer.get(Work.GENERATION, ()) if name != CPU]
        if others:
            raise ValueError(
                f"generation runs on the CPU alone, since its cache of keys and values lies in the CPU's memory; "
                f"leave {', '.join(others)} out of `generation`"
            )
        return prefer

    def allowed(self, work: Work) -> tuple[str, ...]:
        """Return the names that may do some work, best first; the CPU is not among them where others come first."""
        wanted = (CPU,) if work is Work.GENERATION else self.prefer.get(work, self.allow)
        return tuple(name for name in wanted if name in {*self.allow, CPU} and name not in self.deny)

    def ranks(self, work: Work) -> bool:
        """Whether the order of names is the operator's; otherwise what was measured decides."""
        return work in self.prefer

    @property
    def named(self) -> frozenset[str]:
        """Every provider that is named."""
        return frozenset(
            {*self.allow, *self.deny, *self.options, *(name for names in self.prefer.values() for name in names)}
        )

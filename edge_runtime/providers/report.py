"""What a probe found of one provider with one graph, in words and numbers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from edge_runtime.providers.faults import Fault


class Report(BaseModel):
    """The outcome of one probe.

    Attributes:
        name: Of the provider, in the settings.
        provider: As ONNX Runtime calls it.
        version: Of its code.
        driver: What stands between it and the hardware.
        model: Whose graph it was.
        identity: Of provider, driver, ONNX Runtime, model and options together: it holds while that stays.
        nodes: ONNX Runtime's names of providers to the nodes that each took.
        ms: Batch size to milliseconds of a run.
        difference: Largest difference from the CPU's numbers in float32, as a part of the largest of them.
        peak_bytes: Most memory that its process held.
        fault: Why it may not run this graph; none where it may.
        detail: The same for a person.
        measured_at: Unix seconds.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    provider: str
    version: str
    driver: str
    model: str
    identity: str
    nodes: dict[str, int] = Field(default_factory=dict)
    ms: dict[int, float] = Field(default_factory=dict)
    difference: float | None = None
    peak_bytes: int = 0
    fault: Fault | None = None
    detail: str | None = None
    measured_at: int = 0

    @property
    def passed(self) -> bool:
        """Whether it may run the graph."""
        return self.fault is None

    @property
    def coverage(self) -> float:
        """Share of the nodes that it took itself; the CPU runs the others."""
        return self.nodes.get(self.provider, 0) / max(1, sum(self.nodes.values()))

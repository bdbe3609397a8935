"""A graph on the disk, and what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.providers.samples import Samples, made_up
from inference_protocol.provider_policy import Work

_ONLY = "model.onnx"

Input = tuple[str, str, Sequence[int | str | None]]
"""Name, type as ONNX Runtime writes it, sizes; a size that is not a number is free."""


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph that a provider may be asked to run.

    Attributes:
        path: The file.
        model: As people call it.
        digest: Of the model's files: what was measured of others does not hold.
        work: What it is for.
        samples: Inputs to try it with; made up, if there are none.
    """

    path: Path
    model: str
    digest: str
    work: Work
    samples: Samples | None = None

    @property
    def title(self) -> str:
        """What it is called where a model has several."""
        return self.model if self.path.name == _ONLY else f"{self.model}/{self.path.name}"

    def tried_with(self, inputs: Sequence[Input]) -> Samples:
        """Return inputs to try it with.

        Raises:
            NoSamples: None are given, and none can be made up.
        """
        return made_up(inputs) if self.samples is None else self.samples


def free_inputs(inputs: Sequence[Input]) -> dict[str, Sequence[int | str | None]]:
    """Return the shapes of those inputs that have a free dimension, by their names."""
    return {name: shape for name, _, shape in inputs if not all(isinstance(size, int) for size in shape)}


def takes_batches(inputs: Sequence[Input]) -> bool:
    """Whether the first dimension of some input is free."""
    return any(shape and not isinstance(shape[0], int) for _, _, shape in inputs)

"""The seam between the front and whatever computes tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from inference_protocol.execution import Execution
from inference_protocol.open_inference.datatypes import Datatype

Arrays = Mapping[str, NDArray[Any]]
"""Tensors by their names; of BYTES as arrays of Python strings."""


class TensorRunFailed(Exception):
    """The model could not be run on these tensors. The message holds nothing of them."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a model says of one of its inputs or outputs; an axis of any length is `None`."""

    name: str
    datatype: Datatype
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Batching:
    """How requests may be computed together.

    Attributes:
        axes: By tensor, the axis that its rows stand along; one that is not named here is the same for all rows.
        most_rows: Of a batch; a request that has more is a batch of its own.
        wait_s: How long a request may wait for others to join it.
    """

    axes: Mapping[str, int] = field(default_factory=dict)
    most_rows: int = 1
    wait_s: float = 0.0


class TensorModel(Protocol):
    """A loaded model. One thread at a time runs it.

    Attributes:
        inputs: In the graph's order.
        outputs: Likewise.
    """

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]

    @property
    def execution(self) -> Execution:
        """What computed the last run, or what would compute the first."""
        ...

    def run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        """Return these outputs.

        Raises:
            TensorRunFailed: It could not be run, or was interrupted.
        """
        ...

    def interrupt(self) -> None:
        """End the run in flight, from another thread, where that can be done."""
        ...

    def close(self) -> None:
        """Give its memory back; it is not run again."""
        ...

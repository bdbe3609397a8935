"""What a request for tensors asks beside what every request has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_protocol.open_inference.tensors import Tensor


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """An output that is asked for, and whether as bytes."""

    name: str
    binary: bool


@dataclass(frozen=True, slots=True)
class TensorCall:
    """The tensors of a request.

    Attributes:
        version: Of the model; `None` takes whichever is served first.
        id: The caller's own name for the request, to be repeated in the answer.
        json_bytes: How much of the body is JSON; bytes of tensors follow.
        inputs: In the order of the request.
        outputs: Those that are wanted; `None` takes all.
        binary_outputs: Whether outputs come as bytes where nothing else is said of them.
    """

    version: str | None
    id: str | None
    json_bytes: int
    inputs: Sequence[Tensor]
    outputs: Sequence[WantedOutput] | None
    binary_outputs: bool

"""The seam between the front and whatever computes vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from inference_protocol.execution import Execution

Rows = Sequence[tuple[int, ...]]
"""Token ids of each input, none empty."""
Vectors = NDArray[np.floating[Any]]
"""Float32, `[inputs, dimensions]`, each of length 1."""


class EmbeddingFailed(Exception):
    """The model could not be run on these inputs. The message holds nothing of them."""


class EmbeddingModel(Protocol):
    """A loaded model. One thread at a time runs it."""

    @property
    def execution(self) -> Execution:
        """What computed the last run, or what would compute the first."""
        ...

    def run(self, rows: Rows) -> Vectors:
        """Return the vectors of these inputs.

        Raises:
            EmbeddingFailed: It could not be run, or was interrupted.
        """
        ...

    def interrupt(self) -> None:
        """End the run in flight, from another thread, where that can be done."""
        ...

    def close(self) -> None:
        """Give its memory back; it is not run again."""
        ...

"""What a step's rows say: all of them with their logits, in one call.

Rows whose answers must have a form stand beside rows that are free: what the forms allow is worked out for all of them
at once, and each row then chooses for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from edge_runtime.generation.request import Request
from runtime_server.choosing.sampler import Logits
from runtime_server.engine import TokenEvent
from runtime_server.structure.constraint import Masks


class Chooser:
    """Chooses for the rows of one engine. For its thread only."""

    def __init__(self) -> None:
        """Hold the memory that steps share."""
        self._masks = Masks()

    def __call__(self, rows: Sequence[Request], logits: Logits, next_token_at: float) -> list[TokenEvent]:
        """Choose the next token of every row.

        Args:
            rows: Requests, in the order of their logits.
            logits: Shape `[rows, vocabulary]`.
            next_token_at: When another token could be had; past a request's deadline, this one is its last.
        """
        formed = [(at, row.job.constraint) for at, row in enumerate(rows) if row.job.constraint is not None]
        if not formed:
            return [row.take(of_row, None, next_token_at) for row, of_row in zip(rows, logits, strict=True)]
        masks = self._masks.of([constraint for _, constraint in formed], logits.shape[-1])
        allowed = {at: mask for (at, _), mask in zip(formed, masks, strict=True)}
        return [row.take(logits[at], allowed.get(at), next_token_at) for at, row in enumerate(rows)]

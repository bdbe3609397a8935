"""What a step's rows say: all of them with their logits, in one call."""

from __future__ import annotations

from collections.abc import Sequence

from edge_runtime.generation.request import Request
from edge_runtime.generation.sampler import Logits
from runtime_server.engine import TokenEvent


def choose(rows: Sequence[Request], logits: Logits, next_token_at: float) -> list[TokenEvent]:
    """Choose the next token of every row.

    Args:
        rows: Requests, in the order of their logits.
        logits: Shape `[rows, vocabulary]`.
        next_token_at: When another token could be had; past a request's deadline, this one is its last.
    """
    return [row.take(of_row, next_token_at) for row, of_row in zip(rows, logits, strict=True)]

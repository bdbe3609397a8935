"""Which inputs are computed together: those of like length, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Yield positions in `lengths`, each in one batch, shortest inputs first.

    Args:
        lengths: Tokens of each input.
        most_tokens: Of a batch, padding included; an input that is longer has a batch of its own.
    """
    batch: list[int] = []
    for at in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[at] > most_tokens:  # the longest of a batch is its last
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch

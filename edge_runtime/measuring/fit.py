"""Which known models fit in this machine's memory, with how many slots, and how fast they would decode."""

from __future__ import annotations

from dataclasses import dataclass

from edge_runtime.measuring.known_models import KNOWN_MODELS, MIXTURES
from edge_runtime.residency.memory import need_of

MOST_SLOTS = 64
USUAL_SHARE = 0.55  # of the bandwidth's ceiling, where none was measured here


@dataclass(frozen=True, slots=True)
class Fit:
    """One model in one mixture of blocks.

    Attributes:
        file_bytes: What is downloaded.
        one_slot_bytes: What it takes in memory with one slot.
        slots: Requests at once that fit; 0 where not even one does.
        tokens_per_s: What one request alone can expect.
    """

    model: str
    blocks: str
    file_bytes: int
    one_slot_bytes: int
    slots: int
    tokens_per_s: float


def fits(available: int, bytes_per_s: float, share: float, context: int) -> list[Fit]:
    """Return every known model in every mixture.

    Args:
        available: Bytes of memory.
        bytes_per_s: How fast it is read.
        share: Of the ceiling that decoding reaches.
        context: Most tokens of one slot.
    """
    found = []
    for model in KNOWN_MODELS:
        for blocks, mixture in MIXTURES:
            file, graph, read = model.sizes(mixture)
            config = model.config(read)
            one, two = (need_of(config, graph, slots=slots, context=context).total for slots in (1, 2))
            slots = 0 if one > available else min(MOST_SLOTS, 1 + (available - one) // (two - one))
            found.append(Fit(model.name, blocks, file, one, slots, share * bytes_per_s / read))
    return found

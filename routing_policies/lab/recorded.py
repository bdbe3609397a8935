"""What a replay reads of a decision record, and no more of it: half of the time of a replay is reading.

Parts that many records share, such as a label or what the targets can do, stay the bytes that they are, so that they
are recognised before anything is made of them.
"""

from __future__ import annotations

from msgspec import Raw, Struct
from msgspec.json import Decoder

from routing_policies.snapshot import Device, Prediction

# Of the records that are written now. Older ones lack fields; what newer ones mean is not known here.
VERSION = 1


class RecordedSize(Struct, gc=False):
    """The measured size.

    Attributes:
        tokens: Least, likely, most.
    """

    tokens: tuple[int, int, int]
    body_bytes: int
    parts: dict[str, int]
    output_cap: int
    cap_is_own: bool = True


class RecordedBudget(Struct, gc=False):
    """Milliseconds, as they were when the request came."""

    total_ms: float | None
    ttft_ms: float | None


class RecordedTarget(Struct, gc=False):
    """One of the targets that might answer."""

    target: str


class RecordedDecision(Struct, gc=False, tag_field="kind", tag="decision"):
    """One decision. What has a default here did not stand in the first records."""

    version: int
    task: str
    model: str
    stream: bool
    tenant: str
    label: Raw
    size: RecordedSize
    budget: RecordedBudget
    predictions: dict[str, Prediction | None]
    eligible: list[RecordedTarget]
    excluded: Raw
    roles: Raw = Raw(b"[]")
    residency: str | None = None
    needs: Raw = Raw()
    client: Raw = Raw()
    device: Device | None = None
    targets: Raw = Raw()
    decided_after_ms: float = 0.0
    seed: int = 0


class RecordedOutcome(Struct, gc=False, tag_field="kind", tag="outcome"):
    """How a request ended, which a replay does not ask."""


def record_reader() -> Decoder[RecordedDecision | RecordedOutcome]:
    """Return a reader of one line of a log of records."""
    return Decoder(RecordedDecision | RecordedOutcome)

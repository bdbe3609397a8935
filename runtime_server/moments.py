"""When one request passed from each part of its way to the next."""

from __future__ import annotations

from dataclasses import dataclass

from inference_protocol.timings import Timings


@dataclass(slots=True)
class Moments:
    """Seconds of an engine's clock; `None` until they come.

    Attributes:
        submitted: Admitted to the queue.
        started: Taken out of it.
        prefilled: The prompt was read.
        ended: The last event was made, whatever it says.
    """

    submitted: float
    started: float | None = None
    prefilled: float | None = None
    ended: float | None = None

    @property
    def timings(self) -> Timings:
        """The parts that are over. A request that ended early was in the last of them until then."""
        return Timings(
            queue_ms=_ms(self.submitted, self.started or self.ended),
            prefill_ms=_ms(self.started, self.prefilled or self.ended),
            decode_ms=_ms(self.prefilled, self.ended),
        )


def _ms(begin: float | None, end: float | None) -> float:
    return 0.0 if begin is None or end is None else (end - begin) * 1000

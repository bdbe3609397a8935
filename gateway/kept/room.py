"""What is kept beyond its caller, opened: answers in memory, and the outbox where anybody may put a request off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.kept.answers import KeptAnswers
from gateway.kept.delivery import Delivery
from gateway.kept.finishing import Finishing
from gateway.kept.outbox import Outbox
from gateway.settings import Settings
from gateway.state.keys import Keys


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """The room's parts.

    Attributes:
        outbox: `None` where nobody may put anything off, so that no file is made.
    """

    answers: KeptAnswers
    delivery: Delivery
    finishing: Finishing
    outbox: Outbox | None

    @classmethod
    def open(
        cls,
        settings: Settings,
        keys: Keys,
        *,
        may_defer: bool,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> KeptRoom:
        """Open the room.

        Args:
            settings: How this installation runs.
            keys: Seal what is kept.
            may_defer: Whether anybody may put requests off.
            clock: Monotonic seconds.
            wall: Seconds since the epoch.

        Raises:
            ValueError: The outbox cannot be used.
        """
        answers = KeptAnswers(settings.detached, keys, clock=clock)
        delivery = Delivery(reader_s=settings.timeouts.reader_s, ping_s=settings.timeouts.ping_s)
        outbox = Outbox(settings.folder.outbox_file, settings.outbox, keys, wall=wall) if may_defer else None
        return cls(answers, delivery, Finishing(answers, delivery), outbox)

    @property
    def waiting(self) -> int:
        """Deferred requests that wait."""
        return 0 if self.outbox is None else self.outbox.queued

    def to_json(self) -> dict[str, int]:
        """What operators are shown."""
        return {**self.answers.to_json(), "waiting": self.waiting}

    def close(self) -> None:
        """Close the outbox."""
        if self.outbox is not None:
            self.outbox.close()

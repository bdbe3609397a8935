"""Who is in the house: the counts that admission and the reported state rest on."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from runtime_server.engine import QueueFull


@dataclass(frozen=True, slots=True)
class Counts:
    """A consistent reading: requests waiting, requests in a slot, prompt tokens that neither kind has read yet."""

    waiting: int = 0
    running: int = 0
    prompt_tokens_unread: int = 0


class Occupancy:
    """Counts requests from admission to their end. Safe from any thread.

    Attributes:
        slots: Requests that run at once.
    """

    def __init__(self, slots: int, waiting_limit: int) -> None:
        self.slots = slots
        self._capacity = slots + waiting_limit
        self._lock = threading.Lock()
        self._counts = Counts()

    def allow(self, slots: int) -> None:
        """Change how many slots there are, before anyone is admitted."""
        self._capacity += slots - self.slots
        self.slots = slots

    @property
    def counts(self) -> Counts:
        """The counts now."""
        return self._counts

    def admit(self, prompt_tokens: int) -> None:
        """Count a request in as waiting.

        Raises:
            QueueFull: All slots and all places in the queue are taken.
        """
        with self._lock:
            if self._counts.waiting + self._counts.running >= self._capacity:
                raise QueueFull
            self._change(waiting=1, unread=prompt_tokens)

    def start(self) -> None:
        """Move a request from waiting to running."""
        with self._lock:
            self._change(waiting=-1, running=1)

    def read(self, tokens: int) -> None:
        """Count prompt tokens as read."""
        with self._lock:
            self._change(unread=-tokens)

    def leave(self, *, running: bool, unread: int) -> None:
        """Count a request out, with the prompt tokens it never came to read."""
        with self._lock:
            self._change(waiting=0 if running else -1, running=-1 if running else 0, unread=-unread)

    def _change(self, *, waiting: int = 0, running: int = 0, unread: int = 0) -> None:
        now = self._counts
        self._counts = Counts(now.waiting + waiting, now.running + running, now.prompt_tokens_unread + unread)

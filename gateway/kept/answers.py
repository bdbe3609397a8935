"""The answers that are kept in memory, each for its owner alone: bounded one by one and together, and in time.

In memory, since an answer that is being made does not outlive the process which holds the connection to its target: a
file could keep the beginning of it and never the end. What must outlive a restart goes to the outbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.kept.answer import KeptAnswer
from gateway.kept_settings import DetachedSettings
from gateway.principal import Principal
from gateway.state.keys import Keys
from gateway.state.sealing import Sealer
from inference_protocol.errors import AnswerGone, UnknownRequest

# Beyond an answer's bound, for the error that tells of it.
_ROOM_FOR_ERROR_BYTES = 16 << 10
_SWEEP_EVERY_S = 5.0
# Ids of answers that were dropped, so that their owners are told why.
_MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Owner:
    """Who may have an answer: the key that asked, no other of its tenant."""

    tenant: str
    principal: str

    @classmethod
    def of(cls, principal: Principal) -> Owner:
        """The owner of what a caller asks for."""
        return cls(principal.tenant.id, principal.id)


class Kept:
    """One request whose answer is kept.

    Attributes:
        answer: As far as it is there.
        ended_at: Monotonic seconds; `None` while it is being made.
        failed: Whether it ended with an error.
    """

    def __init__(self, request_id: str, owner: Owner, answer: KeptAnswer) -> None:
        """Begin."""
        self.id = request_id
        self.owner = owner
        self.answer = answer
        self.ended_at: float | None = None
        self.failed = False
        self.was_stopped = False
        self._stop: Callable[[], object] | None = None

    def when_stopped(self, stop: Callable[[], object]) -> None:
        """Say how the making of the answer is ended; at once, if it was stopped before it began."""
        self._stop = stop
        if self.was_stopped:
            stop()

    def stop(self) -> None:
        """End it, if it is still being made."""
        if self.ended_at is None:
            self.was_stopped = True
            if self._stop is not None:
                self._stop()

    def to_json(self) -> dict[str, Any]:
        """What its owner is shown."""
        status = "running" if self.ended_at is None else "failed" if self.failed else "done"
        is_stream = self.answer.head is not None and self.answer.head.is_stream
        last = str(self.answer.pieces) if is_stream else None
        return {"id": self.id, "object": "request", "status": status, "last_event_id": last}


class KeptAnswers:
    """Finds answers, and drops those that are too old or too many."""

    def __init__(self, settings: DetachedSettings, keys: Keys, *, clock: Callable[[], float]) -> None:
        """Keep nothing yet; `clock` gives monotonic seconds."""
        self._settings = settings
        self._keys = keys
        self._clock = clock
        self._kept: dict[str, Kept] = {}
        self._bytes = 0
        self._dropped: dict[str, tuple[Owner, str]] = {}

    def running_ids(self) -> list[str]:
        """Of the requests whose answers are being made."""
        return [kept.id for kept in self._kept.values() if kept.ended_at is None]

    @property
    def bytes(self) -> int:
        """What all of them take."""
        return self._bytes

    def to_json(self) -> dict[str, int]:
        """What operators are shown."""
        return {"running": len(self.running_ids()), "answers": len(self._kept), "bytes": self.bytes}

    def open(self, request_id: str, owner: Owner) -> Kept:
        """Begin an answer; whoever has it made closes it."""
        self.sweep()
        if request_id in self._kept:  # what was said as the request was put off
            self.forget(self._kept[request_id])
        answer = KeptAnswer(Sealer(self._keys, owner.tenant, request_id), lambda count: self._take(kept, count))
        kept = self._kept[request_id] = Kept(request_id, owner, answer)
        return kept

    def close(self, kept: Kept, *, failed: bool) -> None:
        """Say that an answer is over; from now on it can be fetched for a while."""
        kept.failed = failed
        kept.ended_at = self._clock()
        kept.answer.close()

    def find(self, request_id: str, owner: Owner) -> Kept:
        """Return what is kept.

        Raises:
            UnknownRequest: Nothing is, for this caller.
            AnswerGone: It was, and had to make room or was too old.
        """
        self.sweep()
        kept = self._kept.get(request_id)
        if kept is not None and kept.owner == owner:
            return kept
        was = self._dropped.get(request_id)
        if was is not None and was[0] == owner:
            raise AnswerGone("The answer is not kept any more.", details={"reason": was[1]})
        raise UnknownRequest("No request of yours is kept under this id.", param="request_id")

    def running(self, request_id: str, owner: Owner) -> Kept | None:
        """Return what is being made for its owner under that id."""
        kept = self._kept.get(request_id)
        return kept if kept is not None and kept.owner == owner and kept.ended_at is None else None

    def forget(self, kept: Kept) -> None:
        """Keep an answer no longer, at its owner's wish."""
        if self._kept.get(kept.id) is kept:
            del self._kept[kept.id]
            self._bytes -= kept.answer.bytes

    def sweep(self) -> None:
        """Drop what is too old."""
        before = self._clock() - self._settings.kept_s
        for kept in [k for k in self._kept.values() if k.ended_at is not None and k.ended_at <= before]:
            self._drop(kept, "evicted-age")

    async def run(self) -> None:
        """Drop what is too old, until cancelled."""
        while True:
            await asyncio.sleep(min(_SWEEP_EVERY_S, self._settings.kept_s))
            self.sweep()

    def _take(self, kept: Kept, count: int) -> None:
        settings = self._settings
        total = kept.answer.bytes + count
        if total > settings.answer_bytes and not self._is_its_error(kept, count):
            raise _too_large(kept, "evicted-answer-bytes", settings.answer_bytes)
        if self._bytes + count > settings.total_bytes:
            self._make_room(count)
            if self._bytes + count > settings.total_bytes and not self._is_its_error(kept, count):
                raise _too_large(kept, "evicted-total-bytes", settings.total_bytes)
        self._bytes += count

    def _make_room(self, count: int) -> None:
        """Drop complete answers, the oldest first, until so many bytes more are within bounds, or none is left."""
        ended = [kept for kept in self._kept.values() if kept.ended_at is not None]
        for oldest in sorted(ended, key=lambda kept: kept.ended_at or 0.0):
            if self._bytes + count <= self._settings.total_bytes:
                return
            self._drop(oldest, "evicted-total-bytes")

    @staticmethod
    def _is_its_error(kept: Kept, count: int) -> bool:
        return kept.failed and count <= _ROOM_FOR_ERROR_BYTES

    def _drop(self, kept: Kept, reason: str) -> None:
        self.forget(kept)
        self._dropped[kept.id] = (kept.owner, reason)
        if len(self._dropped) > _MOST_REMEMBERED:
            del self._dropped[next(iter(self._dropped))]


def _too_large(kept: Kept, reason: str, limit: int) -> AnswerGone:
    kept.failed = True  # the error that is told of it must find room
    return AnswerGone(
        f"The answer passed the {limit} bytes that are kept; ask for less, or without `x-on-disconnect`.",
        details={"reason": reason, "limit_bytes": limit},
    )

"""The outbox: requests that wait until somebody can answer, and then their answers, sealed on the disk.

A request in it is queued, then being sent, then over. That it is being sent is on the disk before anything is: one that
is found so at the start was being sent as the gateway died, and nobody knows whether it was answered.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson

from gateway.kept.answer import KeptAnswer
from gateway.kept.answers import Owner
from gateway.kept.outbox_file import OutboxFile, Row, State
from gateway.kept_settings import OutboxSettings
from gateway.state.keys import Keys, Purpose, mac
from gateway.state.sealing import Sealer
from inference_protocol.errors import IdempotencyKeyReused, Overloaded, Unavailable
from routing_policies.signals.label import Component, DataClass

_logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Content:
    """What is sealed of a deferred request.

    Attributes:
        raw: Its body, byte for byte.
        fields: Those of its headers that say what it holds.
        key: What everything of its key was labelled at least as it was put off.
        taint: What earlier turns were labelled then.
    """

    raw: bytes
    fields: Mapping[str, str]
    key: Component
    taint: Component

    def to_bytes(self) -> bytes:
        """Return it as a line about the body, and the body."""
        told = {"fields": dict(self.fields), "key": _component(self.key), "taint": _component(self.taint)}
        return orjson.dumps(told) + b"\n" + self.raw

    @classmethod
    def from_bytes(cls, whole: bytes) -> Content:
        """Read what `to_bytes` wrote."""
        line, _, raw = whole.partition(b"\n")
        told = orjson.loads(line)
        return cls(raw, told["fields"], _read_component(told["key"]), _read_component(told["taint"]))


class Outbox:
    """Keeps deferred requests. Used from one event loop; the file is used by a thread of its own.

    Attributes:
        queued: How many wait.
    """

    def __init__(self, path: Path, settings: OutboxSettings, keys: Keys, *, wall: Callable[[], float]) -> None:
        """Open the outbox, and settle what was being sent as the gateway died.

        Args:
            path: The file.
            settings: Its bounds.
            keys: Of this installation.
            wall: Seconds since the epoch.

        Raises:
            ValueError: The file cannot be used, or another gateway uses it.
        """
        self._settings = settings
        self._keys = keys
        self._wall = wall
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outbox")
        self._adding = asyncio.Lock()  # two that come together under one key are one
        try:
            self._file = OutboxFile(path)
            self._settle_unknown()
        except (OSError, sqlite3.Error) as exc:
            raise ValueError(
                f"the outbox in the state folder is in use by another gateway, or damaged: {exc}"
            ) from None
        self.queued = self._file.count(State.QUEUED)

    async def known(self, owner: Owner, idempotency_key: str, raw: bytes) -> Row | None:
        """Return the request that a caller sent under this key before.

        Raises:
            IdempotencyKeyReused: It was another one.
        """
        found = await self._do(lambda file: file.find_by_key(self._digest(owner, idempotency_key)))
        if found is None:
            return None
        row, fingerprint = found
        if fingerprint != self._fingerprint(owner, raw):
            raise IdempotencyKeyReused(
                "Another request was sent under this key: take a new one for a new request.", param="idempotency-key"
            )
        return row

    async def add(
        self,
        request_id: str,
        owner: Owner,
        route: str,
        content: Content,
        idempotency_key: str | None,
        *,
        waits_for: str,
        trace: str,
    ) -> Row:
        """Take a request in, or find the one that its caller sent under this key; once this returns it is on the disk.

        Args:
            request_id: Its id from now on.
            owner: Who may have its answer.
            route: The path it came by.
            content: What is sealed of it.
            idempotency_key: The caller's name for it.
            waits_for: Targets that could answer it, separated by commas.
            trace: Its `traceparent`.

        Raises:
            IdempotencyKeyReused: The one under this key was another.
            Overloaded: It has no room.
            Unavailable: It cannot be written.
        """
        async with self._adding:
            found = None if idempotency_key is None else await self.known(owner, idempotency_key, content.raw)
            return found or await self._added(request_id, owner, route, content, idempotency_key, waits_for, trace)

    async def _added(
        self,
        request_id: str,
        owner: Owner,
        route: str,
        content: Content,
        idempotency_key: str | None,
        waits_for: str,
        trace: str,
    ) -> Row:
        now, settings = self._wall(), self._settings
        due = now + settings.age_s
        row = Row(request_id, owner.tenant, owner.principal, route, State.QUEUED, now, due, waits_for, trace)
        sealed = self._sealer(row).seal(content.to_bytes(), "request")
        digest = None if idempotency_key is None else self._digest(owner, idempotency_key)
        fingerprint = self._fingerprint(owner, content.raw)
        await self.expire()
        bounds = (settings.requests, settings.total_bytes)
        if not await self._do(lambda file: file.add(row, sealed, digest, fingerprint, bounds)):
            raise Overloaded(
                "Nobody can answer now, and the outbox is full; try again later.",
                retry_after_s=60.0,
                details={"reason": "rejected-outbox-full"},
            )
        await self._recount()
        return await self._do(lambda file: file.find(request_id)) or row

    async def find(self, request_id: str, owner: Owner | None = None) -> Row | None:
        """Return a request, for its owner or for an operator."""
        await self.expire()
        row = await self._do(lambda file: file.find(request_id))
        return row if row is not None and (owner is None or owner == owner_of(row)) else None

    async def rows(self, *states: State) -> list[Row]:
        """Return those in these states, or all, in the order of the line."""
        return await self._do(lambda file: file.all(*states))

    async def position(self, row: Row) -> int:
        """Its place in the line, from 1."""
        return await self._do(lambda file: file.position(row))

    async def content(self, row: Row) -> Content | None:
        """Return what a request holds; `None` where it is there no more.

        Raises:
            Unsealable: The installation's key is another one.
        """
        sealed = await self._do(lambda file: file.request(row.id))
        return None if sealed is None else Content.from_bytes(self._sealer(row).unseal(sealed, "request"))

    async def answer(self, row: Row) -> KeptAnswer | None:
        """Return the answer; `None` where there is none, or none any more."""
        sealed = await self._do(lambda file: file.answer(row.id))
        if sealed is None:
            return None
        sealer = self._sealer(row)
        return KeptAnswer.from_bytes(sealer.unseal(sealed, "answer"), sealer)

    async def sending(self, row: Row, run: str) -> bool:
        """Write down that a request is being sent as `run`; say whether it was still waiting."""
        moved = await self._do(lambda file: file.move(row.id, State.QUEUED, State.SENDING, run=run))
        self.queued -= moved
        return moved

    async def requeue(self, row: Row, waits_for: str | None = None) -> None:
        """Put one back of which nothing was sent."""
        self.queued += await self._do(lambda file: file.move(row.id, State.SENDING, State.QUEUED, waits_for=waits_for))

    async def wait_for(self, row: Row, waits_for: str) -> None:
        """Note which targets a waiting request waits for now."""
        await self._do(lambda file: file.move(row.id, State.QUEUED, State.QUEUED, waits_for=waits_for))

    async def end(self, row: Row, reason: str, answer: KeptAnswer | None) -> None:
        """Keep the answer of a request, or that it failed for a reason."""
        whole = None if answer is None or answer.head is None else answer.to_bytes()
        sealed = None if whole is None else self._sealer(row).seal(whole, "answer")
        if sealed is not None:
            size, most = len(sealed) - row.bytes, self._settings.total_bytes
            if not await self._do(lambda file: file.make_room(size, most, "evicted-total-bytes")):
                sealed, reason = None, "evicted-total-bytes"
        state = State.FAILED if reason else State.DONE
        until = self._wall() + self._settings.answer_s
        await self._do(lambda file: file.end(row.id, state, reason, sealed, until))
        await self._recount()

    async def drop(self, row: Row) -> bool:
        """Forget a request; say whether it was there."""
        found = await self._do(lambda file: file.delete(row.id))
        await self._recount()
        return found

    async def expire(self) -> None:
        """Let go of what is too old."""
        now = self._wall()
        await self._do(lambda file: file.expire(now, now + self._settings.answer_s))
        await self._recount()

    def close(self) -> None:
        """Close the file, once what is being written is."""
        self._thread.submit(self._file.close)
        self._thread.shutdown(wait=True)

    async def _recount(self) -> None:
        self.queued = await self._do(lambda file: file.count(State.QUEUED))

    def _settle_unknown(self) -> None:
        until = self._wall() + self._settings.answer_s
        for row in self._file.all(State.SENDING):
            if self._settings.unknown == "retry":
                self._file.move(row.id, State.SENDING, State.QUEUED)
            else:
                self._file.end(row.id, State.FAILED, "unknown-outcome", None, until)
            _logger.warning("%s was being sent as the gateway ended: %s", row.id, self._settings.unknown)

    async def _do(self, work: Callable[[OutboxFile], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._file)
        except sqlite3.Error as exc:
            _logger.error("the outbox cannot be used: %s", exc)
            raise Unavailable(
                "The outbox cannot be used now; try again.", details={"reason": "rejected-outbox-failed"}
            ) from None

    def _sealer(self, row: Row) -> Sealer:
        return Sealer(self._keys, row.tenant, row.id)

    def _digest(self, owner: Owner, idempotency_key: str) -> bytes:
        return mac(self._key(owner), b"key", owner.principal.encode(), idempotency_key.encode("latin-1"))

    def _fingerprint(self, owner: Owner, raw: bytes) -> bytes:
        return mac(self._key(owner), b"body", raw)

    def _key(self, owner: Owner) -> bytes:
        return self._keys.derive(Purpose.KEPT, owner.tenant)


def owner_of(row: Row) -> Owner:
    """Who may have a request's answer."""
    return Owner(row.tenant, row.principal)


def _component(component: Component) -> list[Any]:
    return [None if component.level is None else component.level.word, sorted(component.tags)]


def _read_component(told: list[Any]) -> Component:
    word, tags = told
    return Component(None if word is None else DataClass.from_word(word), frozenset(tags))

"""Where an issuer's keys come from, and when they are fetched anew: in the background, never for each request.

A token that names a key nobody has heard of has them fetched at once, though not more often than every few seconds,
so that a key which the issuer has just begun to use works and a caller cannot make us ask without end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable

from jwt import PyJWK

from gateway.access.key_set import KeySet, KeySetUnreadable
from gateway.access.key_sources import KeySource
from gateway.egress.small_answer import MAX_ANSWER_BYTES
from gateway.issuer_settings import IssuerSettings
from inference_protocol.errors import IssuerUnavailable, UpstreamError

_LEAST_BETWEEN_S = 10.0
_FILE_EVERY_S = 1.0

_logger = logging.getLogger(__name__)


class IssuerKeys:
    """The keys of one issuer, as they are known here."""

    def __init__(self, name: str, settings: IssuerSettings, source: KeySource, *, clock: Callable[[], float]) -> None:
        """Know none yet; `clock` gives monotonic seconds."""
        self._name = name
        self._settings = settings
        self._source = source
        self._clock = clock
        self._keys: KeySet | None = None
        self._digest = b""
        self._good_until = 0.0
        self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        self._failing = False
        self.generation = 0

    @property
    def current(self) -> KeySet | None:
        """The keys, unless none came for too long."""
        return self._keys if self._clock() < self._good_until else None

    def ask(self) -> None:
        """Have them fetched now."""
        self._asked.set()

    async def run(self) -> None:
        """Keep them fresh until cancelled."""
        settings = self._settings
        every_s = settings.refresh_s if settings.jwks_file is None else min(_FILE_EVERY_S, settings.refresh_s)
        while True:
            await self._fetch()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(every_s, _LEAST_BETWEEN_S) if self._failing else every_s):
                    await self._asked.wait()
            self._asked.clear()

    async def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """Return the key that a token names, or `None` where the issuer has no such key.

        Raises:
            IssuerUnavailable: There are no keys to look it up in.
        """
        key = None if self.current is None else self.current.find(key_id, algorithm)
        if key is not None:
            return key
        if self._fetching is not None or self._clock() >= self._tried_at + _LEAST_BETWEEN_S:
            await self._fetch()
        keys = self.current
        if keys is None:
            raise IssuerUnavailable("Tokens cannot be checked now: the keys of their issuer are not at hand.")
        return keys.find(key_id, algorithm)

    async def aclose(self) -> None:
        """Let go of the source."""
        await self._source.aclose()

    async def _fetch(self) -> None:
        """Fetch once for all that want it, and go on for the others where one of them leaves."""
        if self._fetching is None:
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._fetch_now(), name=f"keys-of-{self._name}")
            self._fetching.add_done_callback(self._fetched)
        await asyncio.shield(self._fetching)

    def _fetched(self, _: asyncio.Task[None]) -> None:
        self._fetching = None

    async def _fetch_now(self) -> None:
        try:
            raw = await self._source.read()
            if len(raw) > MAX_ANSWER_BYTES:
                raise KeySetUnreadable(f"it is larger than {MAX_ANSWER_BYTES} bytes")
            digest = hashlib.sha256(raw).digest()
            if digest != self._digest:
                self._keys = KeySet.parse(raw, self._settings.algorithms)
                self._digest = digest
                self.generation += 1
                _logger.info("The keys of issuer %s are new.", self._name)
        except (UpstreamError, OSError, ValueError) as exc:
            if not self._failing:
                _logger.error("The keys of issuer %s stay as they were: %s", self._name, _in_words(exc))
            self._failing = True
        else:
            self._failing = False
            self._good_until = self._clock() + self._settings.keys_hold_s


def _in_words(fault: Exception) -> str:
    if isinstance(fault, UpstreamError):
        return fault.message
    return f"{fault.strerror}." if isinstance(fault, OSError) else f"{fault}."

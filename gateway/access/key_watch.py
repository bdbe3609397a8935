"""Takes up the file of keys as it changes, so that a key holds, or holds no more, within a second of the command."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from gateway.access.key_file import KeyFile, Stamp
from gateway.access.key_ring import KeyRing

_logger = logging.getLogger(__name__)

EVERY_S = 0.5


class KeyWatch:
    """Looks at the file until it is cancelled."""

    def __init__(self, file: KeyFile, ring: KeyRing, *, every_s: float = EVERY_S) -> None:
        """Take up what is there now.

        Raises:
            KeyFileUnusable: The file cannot be read.
            ValueError: A key of it has the id of another.
        """
        self._file = file
        self._ring = ring
        self._every_s = every_s
        self._asked = asyncio.Event()
        self._seen: Stamp = file.stamp()
        ring.replace(file.load())

    def ask(self) -> None:
        """Look at once, and read the file whether or not it seems to have changed."""
        self._asked.set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._asked.wait()
            await self._look()

    async def _look(self) -> None:
        stamp = await asyncio.to_thread(self._file.stamp)
        if stamp == self._seen and not self._asked.is_set():
            return
        self._asked.clear()
        self._seen = stamp
        if stamp is None and not self._ring.is_empty:
            # Nobody revokes keys by taking their file away, and to let everybody in would be worse.
            _logger.error("The file of keys is gone: those that it held go on holding until the next start.")
            return
        try:
            self._ring.replace(await asyncio.to_thread(self._file.load))
        except ValueError as exc:
            _logger.error("The keys stay as they were: %s", exc)
        else:
            _logger.info("The file of keys was read.")

"""What systemd is told of a service of type `notify`: that it serves, that it stops, that its loop still turns.

The protocol is one datagram to the socket that `NOTIFY_SOCKET` names (sd_notify(3)). Where nobody asked for it, nothing
is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Mapping

_logger = logging.getLogger(__name__)


class ServiceManager:
    """The manager that started this process, or nobody."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Read `NOTIFY_SOCKET`, and `WATCHDOG_USEC` where it is meant for this process."""
        self._address = environment.get("NOTIFY_SOCKET")
        meant_for = environment.get("WATCHDOG_PID", str(os.getpid()))
        period_us = environment.get("WATCHDOG_USEC", "") if meant_for == str(os.getpid()) else ""
        self._watchdog_s = int(period_us) / 1e6 if period_us.isdigit() and int(period_us) else None

    def tell(self, *assignments: str) -> None:
        """Send assignments such as `READY=1`. A manager that does not listen costs a line in the log."""
        if self._address is None:
            return
        # A name that begins with `@` is in the abstract namespace, which a zero byte stands for.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(assignments).encode(), address)
        except OSError as error:
            _logger.warning("The service manager could not be told %s: %s", assignments[0], error.strerror)

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Say twice a period that the loop still turns, where a watchdog waits for that."""
        if self._watchdog_s is None:
            yield
            return
        beating = asyncio.create_task(self._beat(self._watchdog_s / 2), name="watchdog")
        try:
            yield
        finally:
            beating.cancel()

    async def _beat(self, every_s: float) -> None:
        while True:
            self.tell("WATCHDOG=1")
            await asyncio.sleep(every_s)

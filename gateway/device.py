"""The state of the device that this gateway runs on, as decisions see it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

from routing_policies.snapshot import Connectivity, Device

# How long a reading of the memory stands: no process takes gigabytes in less.
_CURRENT_S = 1.0
_AVAILABLE = re.compile(rb"^MemAvailable: +([0-9]+) kB$", re.MULTILINE)


class DeviceWatch:
    """Gives the device's state; of its memory what Linux says that processes could take without swapping."""

    def __init__(
        self,
        connectivity: Callable[[], Connectivity],
        *,
        clock: Callable[[], float],
        meminfo: Path = Path("/proc/meminfo"),
    ) -> None:
        """Watch a device.

        Args:
            connectivity: How it stands to the world outside.
            clock: Monotonic seconds.
            meminfo: Where the kernel tells of memory; elsewhere than on Linux there is no such file, and nothing known.
        """
        self._connectivity = connectivity
        self._clock = clock
        self._meminfo = meminfo
        self._read_at = -math.inf
        self._free_memory_mb: float | None = None

    def __call__(self) -> Device:
        """The state now."""
        now = self._clock()
        if now - self._read_at >= _CURRENT_S:
            self._read_at = now
            self._free_memory_mb = self._read()
        return Device(self._connectivity(), self._free_memory_mb)

    def _read(self) -> float | None:
        """Megabytes left. The kernel makes the file as it is read, so this waits for no disk."""
        try:
            found = _AVAILABLE.search(self._meminfo.read_bytes())
        except OSError:
            return None
        return None if found is None else int(found[1]) * 1024 / 1e6

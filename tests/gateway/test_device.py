from __future__ import annotations

from pathlib import Path

import pytest

from gateway.device import DeviceWatch
from routing_policies.snapshot import Connectivity, Device


def test_free_memory_is_what_the_kernel_calls_available_read_once_a_second(tmp_path: Path) -> None:
    now = 0.0
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:  16000000 kB\nMemFree:  1 kB\nMemAvailable:    1000000 kB\n")
    watch = DeviceWatch(lambda: Connectivity.METERED, clock=lambda: now, meminfo=file)
    assert watch() == Device(Connectivity.METERED, 1024.0)
    file.write_text("MemAvailable:    500000 kB\n")
    now = 0.9
    assert watch().free_memory_mb == 1024.0
    now = 1.0
    assert watch().free_memory_mb == 512.0


@pytest.mark.parametrize("text", [None, "MemFree: 5 kB\n", "MemAvailable: much\n"])
def test_memory_that_nobody_can_tell_is_unknown_and_never_zero(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "meminfo"
    if text is not None:
        file.write_text(text)
    assert DeviceWatch(lambda: Connectivity.COLD, clock=lambda: 0.0, meminfo=file)() == Device()

"""How many CPUs this process may use. Compute libraries would count the host's, and be throttled in a container."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cpus(root: Path = Path("/")) -> int:
    """Return the CPUs of the affinity mask, capped by the cgroup's `cpu.max` quota; at least 1.

    A quota of 1.5 CPUs counts as 1: a second thread would spend half its periods throttled, and a step is as slow
    as its slowest thread.

    Args:
        root: Where `/proc` and `/sys` stand.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for folder in cgroup_folders(root) if (quota := _quota(folder / "cpu.max")) is not None]
    return max(1, int(min([float(allowed), *quotas])))


def cgroup_folders(root: Path) -> list[Path]:
    """Return the version 2 cgroup of this process and every ancestor, since each may set a quota."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    mount = root / "sys/fs/cgroup"
    for line in lines:
        if line.startswith("0::"):
            own = mount / line.removeprefix("0::").lstrip("/")
            return [own, *(parent for parent in own.parents if parent.is_relative_to(mount))]
    return []


def _quota(path: Path) -> float | None:
    """Read `cpu.max`: `<microseconds or "max"> <period in microseconds>`."""
    try:
        quota, period = path.read_text(encoding="utf-8").split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None

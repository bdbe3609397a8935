"""The machine: room on the disk, memory, the clock, and who may read the state folder."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gateway.cli.doctor.finding import Finding, fail, ok, warn
from gateway.device import DeviceWatch
from gateway.records.reader import last_record
from gateway.settings import Settings
from routing_policies.snapshot import Connectivity

_MB = 1_000_000
_LEAST_FREE_MB, _COMFORTABLE_FREE_MB = 200, 1000
# Beside the weights: interpreters, keys and values, working memory of the gateway and the edge runtime.
_BESIDE_WEIGHTS_MB = 350
_CGROUP = Path("/sys/fs/cgroup")
_BUILT = datetime(2026, 1, 1, tzinfo=UTC)
_SET_BACK_S = 60.0


def permissions(settings: Settings) -> Iterator[Finding]:
    """See that the state folder is its owner's alone, and can be written to."""
    folder = settings.state_dir
    if not folder.exists():
        parent = next(each for each in folder.absolute().parents if each.exists())
        if os.access(parent, os.W_OK | os.X_OK):
            yield ok("state folder", f"{folder} is not there yet; the first start makes it")
        else:
            yield fail("state folder", f"{folder} is not there, and {parent} cannot be written to", "set `state_dir`")
        return
    found = folder.stat()
    if found.st_uid != os.geteuid():
        fix = f"run as its owner, or `chown -R {os.geteuid()} {folder}`"
        yield fail("state folder", f"{folder} belongs to user {found.st_uid}, and this is user {os.geteuid()}", fix)
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield fail("state folder", f"{folder} cannot be written to", f"`chmod u+rwx {folder}`")
    else:
        yield from _open_to_others(settings)


def _open_to_others(settings: Settings) -> Iterator[Finding]:
    folder = settings.state_dir
    secret = [path for path in (folder, settings.folder.keys, *_files(settings.folder.keys)) if path.exists()]
    bare = [path for path in secret if stat.S_IMODE(path.stat().st_mode) & 0o077]
    if bare:
        shown = ", ".join(map(str, bare[:3])) + (f" and {len(bare) - 3} more" if len(bare) > 3 else "")
        yield fail("permissions", f"others can reach {shown}", f"`chmod -R go-rwx {folder}`")
    else:
        yield ok("permissions", f"{folder} is this user's alone")


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.name.endswith(".pub")] if folder.is_dir() else []


def disk(settings: Settings) -> Iterator[Finding]:
    """See that records and traces have room: what cannot be written down does not leave this machine."""
    folder = next(each for each in (settings.state_dir, *settings.state_dir.absolute().parents) if each.exists())
    room = os.statvfs(folder)
    free_mb = room.f_bavail * room.f_frsize // _MB
    says = f"{free_mb:,} MB free at {folder}"
    kept_mb = settings.records.max_bytes * settings.records.files // _MB
    if free_mb < _LEAST_FREE_MB:
        fix = "make room: requests for other machines are refused where no record of them can be written"
        yield fail("disk", says, fix)
    elif free_mb < max(_COMFORTABLE_FREE_MB, kept_mb):
        fix = f"make room, or set `records.max_bytes` and `records.files` lower: records may take {kept_mb:,} MB"
        yield warn("disk", says, fix)
    else:
        yield ok("disk", says)
    if room.f_files and room.f_favail < 1000:
        yield warn(
            "disk", f"{room.f_favail} files more can be made at {folder}", "delete files; it has run out of inodes"
        )


def memory(settings: Settings, cgroup: Path = _CGROUP) -> Iterator[Finding]:
    """See that the models fit, in the machine's memory and in the control group's."""
    weights_mb = sum(_size(settings.folder.models / name) for name in _served_here(settings)) // _MB
    needed_mb = weights_mb + _BESIDE_WEIGHTS_MB
    free_mb = DeviceWatch(lambda: Connectivity.ONLINE, clock=time.monotonic)().free_memory_mb
    limit_mb = _limit_mb(cgroup)
    says = f"about {needed_mb:,} MB are needed" + (f", {free_mb:,.0f} MB are available" if free_mb is not None else "")
    says += "" if limit_mb is None else f", the control group allows {limit_mb:,} MB"
    bounds = [bound for bound in (free_mb, limit_mb) if bound is not None]
    if bounds and min(bounds) < needed_mb:
        fix = "end other programs, raise `memory.max` of the control group, or serve less: `tidegate models fit`"
        yield warn("memory", says, fix)
    else:
        yield ok("memory", says)


def _served_here(settings: Settings) -> list[str]:
    return [name for name in (settings.edge.model, settings.edge.embedding_model) if settings.starts_edge and name]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


def _limit_mb(cgroup: Path) -> int | None:
    """What the control group of this process allows, the smallest on the way up (cgroup v2)."""
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8").rpartition("::/")[2].strip()
    except OSError:
        return None
    at = cgroup / own
    found: list[int] = []
    while at != cgroup.parent:
        try:
            text = (at / "memory.max").read_text(encoding="ascii").strip()
        except OSError:
            text = "max"
        found += [int(text)] if text.isdecimal() else []
        at = at.parent
    return min(found) // _MB if found else None


def clock(settings: Settings, now: datetime | None = None) -> Iterator[Finding]:
    """See that the clock tells a time that can be: certificates, tokens and budgets of a day hang on it."""
    now = now or datetime.now(UTC)
    record = last_record(settings.folder.records)
    last = None if record is None else datetime.fromisoformat(record["time"])
    if now < _BUILT:
        yield fail(
            "clock", f"it says {now:%Y-%m-%d}, before Tidegate was made", "set the clock: `timedatectl set-ntp true`"
        )
    elif last is not None and (last - now).total_seconds() > _SET_BACK_S:
        says = (
            f"it says {now:%Y-%m-%d %H:%M}, and the last record was written at {last:%Y-%m-%d %H:%M}: it was set back"
        )
        yield warn("clock", says, "set the clock, or wait: keys and tokens may hold longer than they should")
    else:
        yield ok("clock", f"{now:%Y-%m-%d %H:%M:%S} UTC")

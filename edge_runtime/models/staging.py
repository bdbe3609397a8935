"""Where models are made: out of sight, and one build at a time."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.models.errors import NoSpace

_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Staging:
    """A folder that lives as long as one build does, on the same file system as the models.

    Attributes:
        models: Where finished models stand.
        folder: Where they are made; it is gone after the build, however that ends.
        lock: A descriptor for the converters to inherit: if this process is killed, the lock holds until they end too.
    """

    models: Path
    folder: Path
    lock: int

    def room(self, name: str) -> Path:
        """Make an empty folder of that name."""
        made = self.folder / name
        made.mkdir()
        return made


@contextmanager
def staging(models: Path, *, when_busy: Callable[[], None]) -> Iterator[Staging]:
    """Wait for any other build here to end, then give an empty staging folder.

    Args:
        models: The folder of models; it is made if need be, for its owner only.
        when_busy: Called once when another build has to be waited for.
    """
    models.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (models / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            when_busy()
            fcntl.flock(lock, fcntl.LOCK_EX)
        folder = models / ".building"
        shutil.rmtree(folder, ignore_errors=True)  # from a build that was killed: the lock says that it runs no more
        folder.mkdir()
        try:
            yield Staging(models, folder, lock.fileno())
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def require_space(folder: Path, needed_bytes: int) -> None:
    """Refuse what would fill the disk.

    Raises:
        NoSpace: Less is free than it needs.
    """
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise NoSpace(
            f"{folder} has {free // _MEBIBYTE} MiB free, and {-(-needed_bytes // _MEBIBYTE)} MiB are needed. "
            "Free some, or choose another place: `state_dir` in the settings, or TIDEGATE_STATE_DIR."
        )

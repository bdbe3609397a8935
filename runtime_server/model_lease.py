"""A runtime's hold on the model that it serves, so that nobody removes the files under it.

The hold is a shared lock on the folder's manifest. The kernel lets go of it when the process ends, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from runtime_server.model_manifest import FILE_NAME, ModelMissing


class ModelLease:
    """A hold on one version of a model.

    Attributes:
        folder: The version's own folder: a later switch of the model's name does not change it.
    """

    def __init__(self, folder: Path, descriptor: int) -> None:
        """Own `descriptor`, which holds the lock."""
        self.folder = folder
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let go; a second time does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def take_lease(folder: Path) -> ModelLease:
    """Hold the version that `folder` stands for now.

    Raises:
        ModelMissing: There is no complete model, or it is being removed.
    """
    resolved = folder.resolve()
    descriptor = lock_manifest(resolved, fcntl.LOCK_SH)
    if descriptor is None:
        raise ModelMissing(f"There is no complete model in {folder}: {FILE_NAME} is missing, or it is being removed.")
    return ModelLease(resolved, descriptor)


def lock_manifest(folder: Path, kind: int) -> int | None:
    """Lock a folder's manifest, and return the descriptor, or `None` where it is not there or locked against `kind`."""
    path = folder / FILE_NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):  # else it was moved away before the lock was ours
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None

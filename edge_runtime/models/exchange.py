"""Lets two paths take each other's place in one step (renameat2, Linux 3.15), which Python has no call for."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_FROM_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})


def exchange(one: Path, other: Path) -> bool:
    """Exchange what stands under two names on one file system, whatever kind each is.

    Returns:
        Whether it was done: not every system, and not every file system, can.

    Raises:
        OSError: One of them is not there, or may not be moved.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_FROM_HERE, os.fsencode(one), _FROM_HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    failed = ctypes.get_errno()
    if failed in _UNKNOWN:
        return False
    raise OSError(failed, os.strerror(failed), str(one))

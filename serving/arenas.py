"""How much memory a server's threads leave lying about.

glibc gives each thread a heap of its own, and keeps what each once took for a large body: ten megabytes and more of a
gateway that needs a hundred. Its threads take turns on the interpreter's lock, so they lose nothing by sharing.
"""

from __future__ import annotations

import ctypes
import platform

# From glibc's <malloc.h>.
_M_ARENA_MAX = -8


def share_arenas() -> None:
    """Have all threads that start from now on allocate from one heap; does nothing where the C library is another."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)

"""Becomes a program that ends when the process that started it ends.

    python -I -S tether.py PARENT_PID PROGRAM [ARGUMENT ...]

On Linux the kernel sees to it (`PR_SET_PDEATHSIG`), so it holds however the parent ends, SIGKILL included, and it stays
in force across `exec`. A program of its own does it, and not a `preexec_fn`, because Python between fork and exec can
deadlock in a process that has threads. It imports nothing that is not in the interpreter, so that it starts in
milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h
NOT_RUNNABLE = 127  # what a shell exits with


def main(arguments: list[str]) -> str:
    """Become the program; returns only where that failed, with the reason."""
    parent, *program = arguments
    if sys.platform == "linux":
        _die_with_parent()
    if os.getppid() != int(parent):
        return "its parent ended before it had begun"
    try:
        os.execvp(program[0], program)  # noqa: S606  # no shell is wanted
    except OSError as error:
        return f"{program[0]}: {error.strerror}"


def _die_with_parent() -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)
    if prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


if __name__ == "__main__":
    sys.stderr.write(main(sys.argv[1:]) + "\n")
    sys.exit(NOT_RUNNABLE)

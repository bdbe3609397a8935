"""A provider's process, as the runtime sees it: asked with a bound on time and memory, ended when it passes one."""

from __future__ import annotations

import math
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edge_runtime.providers.faults import Fault, ProviderFailed
from edge_runtime.providers.messages import Tensors, receive, send

COMMAND = (sys.executable, "-m", "edge_runtime.providers.worker")
"""How the process is started; the descriptor of its socket follows."""

_LOOK_EVERY_S = 0.02
_LOOK_IDLE_S = 1.0
_KIB = 1024


class ProviderProcess:
    """One process. One thread at a time asks; any may interrupt or close."""

    def __init__(self, command: Sequence[str] = COMMAND, *, memory_bytes: int | None = None) -> None:
        """Start it.

        Args:
            command: How.
            memory_bytes: Most that it may hold in memory, where the system tells how much that is.
        """
        own, other = socket.socketpair()
        with other:
            arguments = [*command, str(other.fileno())]
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self._process = subprocess.Popen(arguments, pass_fds=[other.fileno()], **quiet)  # type: ignore[call-overload]  # a mapping of three streams  # noqa: S603  # our own interpreter, no shell
        self._line = Connection(own.detach())
        self._memory_bytes = memory_bytes
        self._asking = threading.Lock()
        self._writing = threading.Lock()
        self._busy = threading.Event()
        self._deadline = math.inf
        self._ended_for: Fault | None = None
        self._peak_bytes = 0
        threading.Thread(target=self._watch, name="provider-watch", daemon=True).start()

    @property
    def pid(self) -> int:
        """Its number."""
        return int(self._process.pid)

    @property
    def is_busy(self) -> bool:
        """Whether it is being asked."""
        return self._busy.is_set()

    @property
    def peak_bytes(self) -> int:
        """Most memory that it ever held; 0 where the system does not tell."""
        self._peak_bytes = max(self._peak_bytes, memory_of(self.pid)[1])
        return self._peak_bytes

    def ask(
        self, head: Mapping[str, Any], tensors: Tensors | None = None, *, timeout_s: float
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Ask it, and return what it answers.

        Raises:
            ProviderFailed: It refused, or it is no more: it crashed, or was ended since it passed a bound.
        """
        try:
            with self._asking:
                self._deadline = time.monotonic() + timeout_s
                self._busy.set()
                with self._writing:
                    send(self._line, head, tensors)
                told, found = receive(self._line)
        except (EOFError, OSError):
            raise self._failure(timeout_s) from None
        finally:
            self._busy.clear()
        if "error" in told:
            raise ProviderFailed(Fault.REFUSED, told["error"])
        return told, found

    def interrupt(self) -> None:
        """End the run in flight between two of its nodes, where the provider looks there."""
        with suppress(OSError), self._writing:
            send(self._line, {"do": "interrupt"})

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        with self._asking:  # whoever asks sees the end of the line first
            self._line.close()

    def _watch(self) -> None:
        """End the process when it passes a bound while it is asked: who reads or writes sees the end of the line."""
        while self._process.poll() is None:
            if not self._busy.wait(_LOOK_IDLE_S):
                continue
            held = memory_of(self.pid)[0]
            if self._memory_bytes is not None and held > self._memory_bytes:
                self._ended_for, self._peak_bytes = Fault.MEMORY, held
                self._process.kill()
            elif time.monotonic() > self._deadline:
                self._ended_for = Fault.HUNG
                self._process.kill()
            time.sleep(_LOOK_EVERY_S)

    def _failure(self, timeout_s: float) -> ProviderFailed:
        status = self._process.wait()
        match self._ended_for:
            case Fault.HUNG:
                return ProviderFailed(Fault.HUNG, f"it gave no answer within {timeout_s:g} s")
            case Fault.MEMORY:
                allowed = (self._memory_bytes or 0) >> 20
                return ProviderFailed(Fault.MEMORY, f"it took more than the {allowed} MiB of memory that it may")
        return ProviderFailed(Fault.CRASHED, f"its process ended: {_ending(status)}")


def memory_of(pid: int) -> tuple[int, int]:
    """Return the bytes that a process holds in memory now, and the most it ever did; 0 where nobody tells."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0, 0
    told = dict(line.split(":", 1) for line in lines if line.startswith(("VmRSS:", "VmHWM:")))
    held, peak = (int(told.get(name, "0 kB").split()[0]) * _KIB for name in ("VmRSS", "VmHWM"))
    return held, peak


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"

"""What a person sees of a download: how far, how fast, how long still; a line now and then where no terminal is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

_LINE_EVERY_S = 10.0


class Meter:
    """Shows one file after the other."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Show on `console`."""
        self._console = console
        self._clock = clock
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._name, self._done, self._total = "", 0, 0
        self._began = self._told = 0.0
        self._began_at = 0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show within the block."""
        if not self._console.is_terminal:
            yield
            return
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
        with Progress(*columns, TransferSpeedColumn(), TimeRemainingColumn(), console=self._console) as self._progress:
            yield
        self._progress = self._task = None

    def begin(self, name: str, done: int, total: int | None) -> None:
        """Begin a file, or go on with it, of which `done` bytes are there."""
        self._name, self._done, self._total = name, done, total or 0
        self._began = self._told = self._clock()
        self._began_at = done
        if self._progress is None:
            self._say()
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=total, completed=done)

    def advance(self, count: int) -> None:
        """Count bytes that came."""
        self._done += count
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, count)
        elif self._clock() - self._told >= _LINE_EVERY_S:
            self._told = self._clock()
            self._say()

    def _say(self) -> None:
        text = f"{self._name}: {self._done / 1e6:.1f} MB"
        elapsed = self._clock() - self._began
        if self._total:
            text += f" of {self._total / 1e6:.1f}"
        if elapsed > 0 and self._done > self._began_at:
            rate = (self._done - self._began_at) / elapsed
            text += f", {rate / 1e6:.1f} MB/s"
            if self._total:
                text += f", {(self._total - self._done) / rate:.0f} s left"
        self._console.print(text, markup=False, soft_wrap=True)

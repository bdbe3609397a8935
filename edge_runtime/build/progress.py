"""What a person sees while a model is built: steps with their time, alive on a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Steps:
    """Reports the steps of a build on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Write one line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show that `text` is being done, and how long it took once it is."""
        began = time.monotonic()
        if self._console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
            with Progress(*columns, console=self._console, transient=True) as live:
                live.add_task(text, total=None)
                yield
        else:
            self.say(f"{text} ...")
            yield
        self.say(f"{text}: done in {time.monotonic() - began:.0f} s")

"""The lines of several programs on one terminal, each after its program's name; or as JSON, which holds the name."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from gateway.supervise import OWN_NAME

_logger = logging.getLogger(__name__)

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")


class MarkedLines:
    """Writes lines; rich leaves the colours out where there is no terminal or `NO_COLOR` is set."""

    def __init__(self, console: Console, children: Sequence[str]) -> None:
        """Give each child's name, and the supervisor's own, a colour and the same width."""
        self._console = console
        width = max(map(len, (OWN_NAME, *children)))
        self._marks = {OWN_NAME: Text(f"{OWN_NAME:<{width}} │ ", style="bold")}
        for index, name in enumerate(children):
            self._marks[name] = Text(f"{name:<{width}} │ ", style=_COLOURS[index % len(_COLOURS)])

    def say(self, name: str, line: str) -> None:
        """Write one line of one program."""
        self._console.print(Text.assemble(self._marks[name], Text.from_ansi(line)), soft_wrap=True)


def say_as_json(name: str, line: str) -> None:
    """Write one line to standard error: as it is where its program wrote JSON, and as an event of ours otherwise."""
    if line.startswith("{"):
        sys.stderr.write(f"{line}\n")
    else:
        _logger.info("%s: %s", name, line)

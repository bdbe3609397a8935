"""`python -m edge_runtime.providers.worker`: one provider's code, in a process that nothing depends on.

A runtime starts it, tells it over a socket what to do, and ends it whenever it likes. It looks for a provider, opens a
graph on it and runs that. A crash here is a line in a report there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from edge_runtime.generation.interruption import Interruption
from edge_runtime.providers.adapter import Adapter, OptionUnknown, Session
from edge_runtime.providers.adapters import ADAPTERS
from edge_runtime.providers.messages import Tensors, receive, send
from edge_runtime.providers.sessions import ORT_ERRORS, node_counts, session_options

# What a provider, its library or ONNX Runtime may raise where it cannot do what it is asked.
REFUSALS = (*ORT_ERRORS, RuntimeError, ValueError, OSError, ImportError, AttributeError, OptionUnknown)


class Worker:
    """What the process does. One message at a time, but for the one that interrupts a run."""

    def __init__(self, line: Connection, adapters: Sequence[Adapter]) -> None:
        """Do what `line` says with these providers."""
        self._line = line
        self._adapters = {adapter.name: adapter for adapter in adapters}
        self._thread = ThreadPoolExecutor(1)
        self._interruption = Interruption()
        self._session: Session = None

    def serve(self) -> None:
        """Work until the other side is gone."""
        while True:
            try:
                head, tensors = receive(self._line)
            except (EOFError, OSError):
                return
            if head["do"] == "interrupt":
                self._interruption.set()
            else:
                self._interruption = Interruption()
                self._thread.submit(self._answer, head, tensors)

    def _answer(self, head: Mapping[str, Any], tensors: Tensors) -> None:
        found: Tensors = {}
        try:
            match head["do"]:
                case "find":
                    told: dict[str, Any] = asdict(self._adapters[head["name"]].find())
                case "open":
                    told = self._open(head)
                case _:
                    began = time.perf_counter()
                    found = self._run(tensors, head.get("outputs"))
                    told = {"ms": (time.perf_counter() - began) * 1000}
        except REFUSALS as error:
            told = {"error": f"{type(error).__name__}: {str(error)[:2000]}"}
        with suppress(OSError):  # nobody waits for it any more
            send(self._line, told, found)

    def _open(self, head: Mapping[str, Any]) -> dict[str, Any]:
        adapter = self._adapters[head["name"]]
        options = session_options(head["threads"])
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        self._session = session = adapter.open(Path(head["path"]), options, head["options"])
        return {
            "nodes": node_counts(session),
            "inputs": [[value.name, value.type, value.shape] for value in session.get_inputs()],
            "outputs": [value.name for value in session.get_outputs()],
        }

    def _run(self, tensors: Tensors, outputs: Sequence[str] | None) -> Tensors:
        names = outputs or [value.name for value in self._session.get_outputs()]
        found = self._session.run(names, dict(tensors), self._interruption.options())
        return dict(zip(names, found, strict=True))


def main(arguments: Sequence[str], adapters: Sequence[Adapter] = ADAPTERS) -> None:
    """Serve the socket whose descriptor is the one argument, and end at once with its other side."""
    Worker(Connection(int(arguments[0])), adapters).serve()
    os._exit(0)  # a provider may hang in a run, or crash as it is taken down; nobody waits for either


if __name__ == "__main__":
    main(sys.argv[1:])

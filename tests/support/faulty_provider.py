"""A provider that does one thing wrong, as a process: `python faulty_provider.py DESCRIPTOR`.

It computes on the CPU and calls itself another provider. What it does wrong is an option, and so is a file without
which it does everything right; the runs after that file appeared are counted.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import edge_runtime  # noqa: F401  # sets what must be set before ONNX Runtime is imported

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import onnxruntime as ort

from edge_runtime.providers import worker
from edge_runtime.providers.adapter import Adapter, Found, Option, Session
from edge_runtime.providers.adapters import ADAPTERS
from edge_runtime.providers.sessions import CPU_PROVIDER

COMMAND = (sys.executable, str(Path(__file__)))
PROVIDER = "StandInExecutionProvider"


@dataclass(frozen=True, slots=True)
class StandIn(Adapter):
    """The provider. The environment says its version."""

    def absent(self) -> Found | None:
        return None

    def find(self) -> Found:
        told = os.environ.get("STAND_IN", "")
        if told == "crashes in find":
            signal.raise_signal(signal.SIGSEGV)
        version = told.removeprefix("version ") if told.startswith("version ") else "1"
        return Found(self.name, self.provider, installed=True, version=version, driver="none", devices=("CPU",))

    def open(self, path: Path, options: ort.SessionOptions, given: Mapping[str, str]) -> Session:
        if given.get("fault") == "crashes at once":
            signal.raise_signal(signal.SIGSEGV)
        if given.get("fault") == "hangs at once":
            time.sleep(600)
        return FaultySession(_compiled(path, given), options, given)


def _compiled(path: Path, given: Mapping[str, str]) -> Path:
    """Return the graph in the cache, which is made if there is none: whether it is of the same model is not asked."""
    folder = given.get("own_cache") or given.get("cache")
    if folder is None:
        return path
    kept = Path(folder) / "compiled.onnx"
    if not kept.exists():
        shutil.copy(path, kept)
    elif kept.stat().st_size == 0:
        raise RuntimeError("the compiled graph cannot be read")
    return kept


class FaultySession:
    """A session on the CPU, and the fault."""

    def __init__(self, path: Path, options: ort.SessionOptions, given: Mapping[str, str]) -> None:
        self._session = ort.InferenceSession(str(path), options, providers=[CPU_PROVIDER])
        self._fault = given.get("fault", "")
        self._armed = Path(given["armed"]) if "armed" in given else None
        self._at = int(given.get("at", "1"))
        self._runs = 0
        self.get_inputs, self.get_outputs = self._session.get_inputs, self._session.get_outputs

    def get_provider_graph_assignment_info(self) -> list[Any]:
        name = CPU_PROVIDER if self._fault == "claims nothing" else PROVIDER
        parts = self._session.get_provider_graph_assignment_info()
        return [SimpleNamespace(ep_name=name, get_nodes=part.get_nodes) for part in parts]

    def run(self, names: list[str], feeds: Mapping[str, Any], options: ort.RunOptions) -> list[Any]:
        found = self._session.run(names, feeds, options)
        if self._armed is not None and not self._armed.exists():
            return list(found)
        self._runs += 1
        if self._runs < self._at:
            return list(found)
        match self._fault:
            case "wrong":
                return [array + 0.01 * np.abs(array).max() for array in found]
            case "not finite":
                return [np.full_like(array, np.nan) for array in found]
            case "crashes":
                signal.raise_signal(signal.SIGSEGV)
            case "hangs":
                time.sleep(600)
            case "eats memory":
                self._eaten = np.ones(1 << 27)
                time.sleep(600)
            case "raises":
                raise RuntimeError("the device is lost")
        return list(found)


_OPTIONS = tuple(Option(name, "of a test") for name in ("fault", "armed", "at", "own_cache", "cache"))
STAND_IN = StandIn("stand-in", PROVIDER, "nothing", "nothing", options=_OPTIONS, cache_option="cache")
STATIC = StandIn("static", PROVIDER, "nothing", "nothing", options=_OPTIONS, static_on=frozenset({"CPU"}))
WITH_STAND_INS = (*ADAPTERS, STAND_IN, STATIC)

if __name__ == "__main__":
    worker.main(sys.argv[1:], WITH_STAND_INS)

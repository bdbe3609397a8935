"""A benchmark's outcome: its raw figures, and one row for each budget."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Check:
    """One budget and what was measured against it."""

    name: str
    value: float
    unit: str
    budget: float
    ok: bool


@dataclass
class Report:
    """Collects figures and checks, prints the rows as they come, and writes the file at the end."""

    name: str
    raw: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    def at_least(self, name: str, value: float, budget: float, unit: str) -> None:
        self._add(name, value, budget, unit, value >= budget, "at least")

    def at_most(self, name: str, value: float, budget: float, unit: str) -> None:
        self._add(name, value, budget, unit, value <= budget, "at most")

    def _add(self, name: str, value: float, budget: float, unit: str, ok: bool, side: str) -> None:
        self.checks.append(Check(name, round(value, 4), unit, budget, ok))
        print(f"{'ok  ' if ok else 'MISS'} {name}: {value:.4g} {unit} ({side} {budget:g})", flush=True)

    def write(self, path: Path) -> None:
        cpu = next(
            (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "?"
        )
        machine = {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
        body = {"name": self.name, "machine": machine, "raw": self.raw, "checks": [asdict(c) for c in self.checks]}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []

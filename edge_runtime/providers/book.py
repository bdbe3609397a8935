"""The file that keeps what probes found on this machine, and which providers are in quarantine.

It is not trusted further than its identities reach: what was found under another driver, another ONNX Runtime or for
another model is not read as true. A file that cannot be read is as good as none, and everything is probed again.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge_runtime.providers.faults import Fault
from edge_runtime.providers.processor import processor
from edge_runtime.providers.report import Report
from observability.disk import write_whole


class Quarantine(BaseModel):
    """A provider that failed in service.

    Attributes:
        identity: Of provider, driver and ONNX Runtime: under another one it gets another chance.
        model: Which it failed with.
        since: Unix seconds.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    identity: str
    model: str
    fault: Fault
    detail: str
    since: int


class Pages(BaseModel):
    """What the file holds.

    Attributes:
        processor: What the CPU multiplies integers with.
        reports: Latest, by provider and model.
        quarantine: By provider.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: Literal[1] = 1
    processor: str = ""
    reports: dict[str, Report] = Field(default_factory=dict)
    quarantine: dict[str, Quarantine] = Field(default_factory=dict)

    def holding(self, identity: str) -> Report | None:
        """Return the report that was made under this identity."""
        return next((report for report in self.reports.values() if report.identity == identity), None)


class ProviderBook:
    """The file, read and written whole, by one process at a time."""

    def __init__(self, path: Path, *, now: Callable[[], float]) -> None:
        """Keep it at `path`; `now` is in Unix seconds."""
        self._path = path
        self._now = now

    def read(self) -> Pages:
        """Return what is known."""
        try:
            return Pages.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return Pages(processor=processor())

    def record(self, report: Report) -> Report:
        """Keep a report in the place of the one before; return it with its time."""
        dated = report.model_copy(update={"measured_at": int(self._now())})
        with self._changing() as pages:
            reports = pages.reports | {f"{report.name} {report.model}": dated}
            self._write(pages.model_copy(update={"reports": reports, "processor": processor()}))
        return dated

    def entry(self, identity: str, model: str, fault: Fault, detail: str) -> Quarantine:
        """Return what a quarantine would be that begins now."""
        return Quarantine(identity=identity, model=model, fault=fault, detail=detail, since=int(self._now()))

    def quarantine(self, name: str, identity: str, model: str, fault: Fault, detail: str) -> Quarantine:
        """Keep a provider from being used until its identity changes or somebody lifts it.

        Raises:
            OSError: It cannot be written.
        """
        entry = self.entry(identity, model, fault, detail)
        with self._changing() as pages:
            self._write(pages.model_copy(update={"quarantine": pages.quarantine | {name: entry}}))
        return entry

    def lift(self, name: str) -> None:
        """End a quarantine."""
        with self._changing() as pages:
            kept = {other: entry for other, entry in pages.quarantine.items() if other != name}
            self._write(pages.model_copy(update={"quarantine": kept}))

    @contextmanager
    def _changing(self) -> Iterator[Pages]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a runtime and a command may write at once
            yield self.read()

    def _write(self, pages: Pages) -> None:
        write_whole(self._path, f"{pages.model_dump_json(indent=2)}\n".encode())

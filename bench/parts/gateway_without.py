"""The gateway without one of its parts, which no setting offers: `... PART serve --settings FILE`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import NoOpTracer

import gateway.app
import gateway.cli.serve
from gateway import cli
from gateway.records.log import RecordLog
from routing_policies.signals.scanner import ScanResult, build_scanner


class _Blind:
    """A scanner that finds nothing, at once; what it is asked beside that, the real one knows."""

    def __init__(self) -> None:
        self._real = build_scanner()
        self._nothing = self._real.scan(())

    def scan(self, _: Any) -> ScanResult:
        return self._nothing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def without_scanner() -> None:
    vars(gateway.app)["build_scanner"] = _Blind


def without_records() -> None:
    def write(self: RecordLog, record: Mapping[str, Any]) -> None:
        """Nothing is written; what would be has been put together all the same."""

    async def write_before_egress(self: RecordLog, record: Mapping[str, Any]) -> None:
        pass

    RecordLog.write = write  # type: ignore[method-assign]  # replaced, to take its part off
    RecordLog.write_before_egress = write_before_egress  # type: ignore[method-assign]  # replaced, to take its part off


def without_traces() -> None:
    made = gateway.app.create_app
    vars(gateway.app)["create_app"] = lambda settings, begun, _tracer: made(settings, begun, NoOpTracer())


PARTS: Mapping[str, Callable[[], None]] = {
    "keys": lambda: None,  # the settings name none
    "scanner": without_scanner,
    "records": without_records,
    "traces": without_traces,
}

if __name__ == "__main__":
    for part in sys.argv.pop(1).split(","):
        PARTS[part]()
    cli.main()

"""How each provider stands on this machine, for a person: what is installed, what is missing, what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from edge_runtime.providers import prober
from edge_runtime.providers.adapter import Adapter, Found
from edge_runtime.providers.book import Pages
from edge_runtime.providers.identity import provider_identity
from edge_runtime.providers.prober import Bench
from edge_runtime.providers.providers import quarantine_reason
from edge_runtime.providers.report import Report
from inference_protocol.provider_policy import CPU


class Tested(StrEnum):
    """What may be said of a provider. Nothing is taken on trust: one is `untested` until a probe has passed here."""

    REFERENCE = "reference"
    PASSED = "passed"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    UNTESTED = "untested"


@dataclass(frozen=True, slots=True)
class Standing:
    """One provider.

    Attributes:
        name: In the settings.
        provider: As ONNX Runtime calls it.
        hardware: What it computes on.
        state: `ok`, or `warn` where the settings allow it and it cannot be used.
        says: How it stands, in a sentence without its full stop.
        fix: What to do, where something can be done.
        allowed: Whether the settings let it be loaded.
        installed: Whether its code is here.
        version: Of that.
        devices: Kinds that it has found.
        tested: What its probes came to.
        reports: Of those probes.
    """

    name: str
    provider: str
    hardware: str
    state: str
    says: str
    fix: str | None
    allowed: bool
    installed: bool
    version: str
    devices: tuple[str, ...]
    tested: Tested
    reports: tuple[Report, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as values of a JSON object."""
        reports = [{**report.model_dump(mode="json"), "coverage": report.coverage} for report in self.reports]
        return {**asdict(self), "devices": list(self.devices), "reports": reports}


def standings(bench: Bench, pages: Pages) -> Iterator[Standing]:
    """Yield how each provider stands. Each is looked for in a process of its own.

    Args:
        bench: Whose policy says what is allowed.
        pages: What is known of probes.
    """
    for adapter in bench.adapters:
        yield _standing(bench, adapter, prober.find(bench, adapter.name), pages)


def _standing(bench: Bench, adapter: Adapter, found: Found, pages: Pages) -> Standing:
    policy = bench.policy
    allowed = adapter.name == CPU or (adapter.name in policy.allow and adapter.name not in policy.deny)
    reports = tuple(
        report
        for report in pages.reports.values()
        if (report.name, report.version, report.driver) == (found.name, found.version, found.driver)
    )
    tested, says, fix = _verdict(adapter, found, reports, pages)
    usable = found.problem is None and tested is not Tested.QUARANTINED
    return Standing(
        name=adapter.name,
        provider=adapter.provider,
        hardware=adapter.hardware,
        state="warn" if allowed and not usable else "ok",
        says=says,
        fix=fix,
        allowed=allowed,
        installed=found.installed,
        version=found.version,
        devices=found.devices,
        tested=tested,
        reports=reports,
    )


def _verdict(adapter: Adapter, found: Found, reports: Sequence[Report], pages: Pages) -> tuple[Tested, str, str | None]:
    """Return what may be said of a provider, in a word, in a sentence, and what to do about it."""
    probe = f"`tidegate models probe --provider {adapter.name}`"
    quarantine = pages.quarantine.get(adapter.name)
    if quarantine is not None and quarantine.identity == provider_identity(found):
        return Tested.QUARANTINED, quarantine_reason(quarantine), f"{probe} tries it again"
    if not found.installed:
        return Tested.UNTESTED, (found.problem or "").partition(": ")[0], adapter.install
    if found.problem is not None:
        return Tested.UNTESTED, found.problem, None
    measured = [_measured(report) for report in reports]
    if adapter.name == CPU:
        return Tested.REFERENCE, "; ".join([_here(found), pages.processor, *measured]), None
    if not reports:
        return Tested.UNTESTED, f"{_here(found)}; untested", f"{probe} tries it"
    tested = Tested.PASSED if any(report.passed for report in reports) else Tested.FAILED
    return tested, "; ".join([_here(found), *measured]), None


def _here(found: Found) -> str:
    return f"{found.version} on {', '.join(found.devices)}"


def _measured(report: Report) -> str:
    if report.fault is not None:
        return f"{report.model}: {report.detail}"
    fastest = next(iter(sorted(report.ms.items())), None)
    speed = "" if fastest is None else f", {fastest[1]:g} ms for {fastest[0]}"
    off = f", off by {report.difference:.1g}" if report.difference else ""
    return f"{report.model}: {report.coverage:.0%} of the nodes{speed}{off}"

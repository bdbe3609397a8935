"""Which provider does some work: what the operator allows and prefers, and what was measured here. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.providers.report import Report
from inference_protocol.provider_policy import CPU, ProviderPolicy, Work


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision and its reasons.

    Attributes:
        name: The provider that is to do the work.
        passed_over: The others that are allowed to, each with why it does not.
    """

    name: str
    passed_over: Mapping[str, str]


def select(policy: ProviderPolicy, work: Work, reports: Mapping[str, Report], barred: Mapping[str, str]) -> Choice:
    """Choose. What is barred or did not pass never does it, and the CPU can always.

    Args:
        policy: The operator's.
        work: What is to be done.
        reports: By provider, of probes that hold now; the CPU's among them.
        barred: Providers that may not, to the reason.
    """
    passed_over: dict[str, str] = {}
    able: list[str] = []
    for name in policy.allowed(work):
        report = reports.get(name)
        if name in barred:
            passed_over[name] = barred[name]
        elif name != CPU and report is None:
            passed_over[name] = "no probe has passed"
        elif report is not None and not report.passed:
            passed_over[name] = f"{report.fault}: {report.detail}"
        else:
            able.append(name)
    if not policy.ranks(work):
        able = sorted({*able, CPU}, key=lambda name: _slowness(reports.get(name)))
    best = able[0] if able else CPU
    for name in able[1:]:
        if name != CPU:
            passed_over[name] = _why(reports.get(name), reports.get(best), ranked=policy.ranks(work))
    return Choice(best, passed_over)


def _slowness(report: Report | None) -> float:
    """Milliseconds of one run of each batch size."""
    return float("inf") if report is None or not report.ms else sum(report.ms.values())


def _why(report: Report | None, best: Report | None, *, ranked: bool) -> str:
    if ranked or report is None or best is None:
        return "another one is preferred"
    return f"slower than {best.name}: {_slowness(report):.2f} ms against {_slowness(best):.2f} for the same runs"

"""`python -m edge_runtime.providers`: which execution providers are here, and what they do with a model."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from edge_runtime.build.progress import Steps
from edge_runtime.providers import prober
from edge_runtime.providers.adapter import Adapter
from edge_runtime.providers.adapters import ADAPTERS
from edge_runtime.providers.book import ProviderBook
from edge_runtime.providers.faults import ProviderFailed
from edge_runtime.providers.model_graphs import graphs_of
from edge_runtime.providers.options import add_provider_options
from edge_runtime.providers.prober import Bench
from edge_runtime.providers.process import COMMAND
from edge_runtime.providers.report import Report
from edge_runtime.providers.standing import Standing, standings
from inference_protocol.provider_policy import CPU
from runtime_server.cpus import usable_cpus
from runtime_server.model_manifest import ModelDamaged, ModelMissing, ModelUnsupported
from runtime_server.options import at_least

_MIB = 1 << 20


def main(
    arguments: list[str] | None = None, adapters: Sequence[Adapter] = ADAPTERS, command: Sequence[str] = COMMAND
) -> int:
    """Do what is asked for, and return the exit status: 0, or 1 where no probe of a provider passed."""
    asked = _parser().parse_args(arguments)
    threads = asked.threads or usable_cpus()
    bench = Bench(asked.providers, threads, asked.provider_cache, adapters, command)
    book = ProviderBook(asked.provider_file, now=time.time)
    if asked.command == "list":
        return _list(bench, book, as_json=asked.json)
    steps = Steps(Console(stderr=True))
    unknown = [name for name in asked.provider if bench.adapter(name) is None]
    if unknown:
        there_are = ", ".join(adapter.name for adapter in adapters)
        steps.say(f"There is no provider `{unknown[0]}`. There are: {there_are}.")
        return 1
    try:
        reports = _probe(bench, book, asked, steps)
    except (ModelMissing, ModelDamaged, ModelUnsupported, ProviderFailed) as error:
        steps.say(str(error))
        return 1
    if asked.json:
        _print_json([{**report.model_dump(mode="json"), "coverage": report.coverage} for report in reports])
    else:
        Console(highlight=False).print(_reports_table(reports))
    others = [report for report in reports if report.name != CPU]
    return 0 if any(report.passed for report in others) or asked.provider == [CPU] else 1


def _probe(bench: Bench, book: ProviderBook, asked: argparse.Namespace, steps: Steps) -> list[Report]:
    """Try providers with every graph of a model; one that is in quarantine, and passes with all, comes out of it."""
    names = asked.provider or [adapter.name for adapter in bench.adapters]
    reports: list[Report] = []
    for graph in graphs_of(asked.model_dir):
        with steps.step(f"Running {graph.title} on the CPU"):
            reference = prober.refer(bench, graph)
        reports.append(book.record(reference.report))
        for name in names:
            candidate = prober.look(bench, name)
            try:
                if candidate.found.devices and name != CPU:
                    with steps.step(f"Running {graph.title} on {name}"):
                        report = prober.probe(bench, candidate, graph, reference)
                    reports.append(book.record(report))
                elif asked.provider and candidate.found.problem is not None:
                    steps.say(f"{name}: {candidate.found.problem}")
            finally:
                candidate.close()
    for name in names:
        own = [report for report in reports if report.name == name]
        if own and all(report.passed for report in own):
            book.lift(name)
    return reports


def _list(bench: Bench, book: ProviderBook, *, as_json: bool) -> int:
    rows = list(standings(bench, book.read()))
    if as_json:
        _print_json([row.to_json() for row in rows])
    else:
        Console(highlight=False).print(_standings_table(rows))
    return 0


def _print_json(found: object) -> None:
    print(json.dumps(found, indent=2))  # noqa: T201  # machine-readable output, not wrapped by rich


def _standings_table(rows: Sequence[Standing]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("provider", "computes on", "may", "tested", "how it stands"):
        table.add_column(column, overflow="fold")
    for row in rows:
        fix = "" if row.fix is None else f"\n→ {row.fix}"
        table.add_row(row.name, row.hardware, "yes" if row.allowed else "no", row.tested, row.says + fix)
    return table


def _reports_table(reports: Sequence[Report]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("model", "provider", "nodes", "ms by rows", "off by", "MiB", "verdict"):
        table.add_column(column, overflow="fold")
    for report in reports:
        nodes = f"{report.nodes.get(report.provider, 0)} of {sum(report.nodes.values())}" if report.nodes else ""
        ms = ", ".join(f"{rows}: {value:.3g}" for rows, value in sorted(report.ms.items()))
        off = "" if report.difference is None else f"{report.difference:.1g}"
        memory = str(report.peak_bytes // _MIB) if report.peak_bytes else ""
        verdict = "passed" if report.fault is None else f"{report.fault}: {report.detail}"
        table.add_row(report.model, report.name, nodes, ms, off, memory, verdict)
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m edge_runtime.providers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="what is installed, what is missing, what was measured")
    probe = commands.add_parser("probe", help="try providers with a model, in processes of their own")
    probe.add_argument("--model-dir", type=Path, required=True)
    probe.add_argument("--provider", action="append", default=[], metavar="NAME", help="default: all that are here")
    for command in (listing, probe):
        add_provider_options(command.add_argument_group("execution providers"))
        command.add_argument("--threads", type=at_least(1), help="default: the CPUs this process may use")
        command.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())

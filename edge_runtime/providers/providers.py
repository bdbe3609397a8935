"""Opens graphs for a runtime: on the CPU at once, and on what was chosen for them as soon as that has been probed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from edge_runtime.providers import prober
from edge_runtime.providers.adapter import Found
from edge_runtime.providers.adapters import CPU_ADAPTER
from edge_runtime.providers.book import ProviderBook, Quarantine
from edge_runtime.providers.cpu import open_on_cpu
from edge_runtime.providers.faults import ProviderFailed
from edge_runtime.providers.graph_file import GraphFile
from edge_runtime.providers.identity import graph_identity, provider_identity
from edge_runtime.providers.opened import Accelerated, OpenedGraph
from edge_runtime.providers.prober import Bench, Candidate
from edge_runtime.providers.report import Report
from edge_runtime.providers.selection import Choice, select
from inference_protocol.provider_policy import CPU, ProviderPolicy
from inference_protocol.runtime_state import ProviderUse
from serving.start import StartRefused

_logger = logging.getLogger(__name__)


def cpu_only(threads: int) -> Providers:
    """Return what opens graphs on the CPU alone: nothing is probed and nothing written."""
    return Providers(Bench(ProviderPolicy(), threads), ProviderBook(Path("unused.json"), now=time.time))


class UnknownProvider(StartRefused):
    """The settings name a provider that there is not."""


class Providers:
    """What a runtime has. Every method may be called from any thread."""

    def __init__(self, bench: Bench, book: ProviderBook) -> None:
        """Open nothing yet.

        Args:
            bench: What probes are made with; the operator's policy is in it.
            book: Keeps what they find.

        Raises:
            UnknownProvider: The policy names one that there is not.
        """
        known = {adapter.name for adapter in bench.adapters}
        unknown = sorted(bench.policy.named - known)
        if unknown:
            there_are = ", ".join(adapter.name for adapter in bench.adapters)
            raise UnknownProvider(f"edge.providers: there is no provider `{unknown[0]}`. There are: {there_are}.")
        self._bench = bench
        self._book = book
        self._cpu = CPU_ADAPTER.find()  # which is in this process anyway
        self._probing = threading.Lock()  # one at a time, since two would slow each other
        self._changing = threading.Lock()
        self._graphs: list[OpenedGraph] = []
        self._passed_over: dict[str, Mapping[str, str]] = {}
        self._kept: dict[str, Quarantine] = {}  # what failed in this process

    def open(self, graph: GraphFile) -> OpenedGraph:
        """Open a graph on the CPU. Where others may run it, they are tried meanwhile, and take over.

        Raises:
            ModelUnsupported: It cannot be run here.
        """
        session = open_on_cpu(graph.path, self._bench.threads)
        opened = OpenedGraph(graph, session, run_timeout_s=self._bench.policy.run_timeout_s, failed=self._quarantine)
        others = [name for name in self._bench.policy.allowed(graph.work) if name != CPU]
        with self._changing:
            self._graphs = [*(each for each in self._graphs if each.graph.title != graph.title), opened]
            self._passed_over[graph.title] = dict.fromkeys(others, "it is being tried; the CPU answers meanwhile")
        if others:
            threading.Thread(target=self._settle, args=(opened,), name="providers", daemon=True).start()
        return opened

    def settle(self, opened: OpenedGraph) -> Choice:
        """Choose what runs a graph, from probes that hold or are made now, and move it there."""
        graph = opened.graph
        others = [name for name in self._bench.policy.allowed(graph.work) if name != CPU]
        with self._probing:
            candidates = {name: prober.look(self._bench, name) for name in others}
            try:
                choice = self._choose(opened, candidates)
            finally:
                taken = opened.accelerated
                for candidate in candidates.values():
                    if taken is None or candidate.process is not taken.process:
                        candidate.close()
        with self._changing:
            self._passed_over[graph.title] = choice.passed_over
        _logger.info("%s of %s runs on %s", graph.work, graph.title, choice.name)
        return choice

    def _settle(self, opened: OpenedGraph) -> None:
        """Choose in the background: where that is not possible, the CPU goes on, and the state says why."""
        try:
            self.settle(opened)
        except OSError as error:
            _logger.warning("No provider can be tried with %s: %s", opened.graph.title, error)
            with self._changing:
                kept = self._passed_over[opened.graph.title]
                self._passed_over[opened.graph.title] = dict.fromkeys(kept, f"it could not be tried: {error}")

    def uses(self) -> Sequence[ProviderUse]:
        """Return what runs where now, and why not elsewhere."""
        with self._changing:
            return tuple(
                ProviderUse(
                    model=each.graph.title,
                    work=each.graph.work,
                    provider=each.provider,
                    passed_over=dict(self._passed_over.get(each.graph.title, {})),
                )
                for each in self._graphs
            )

    def close(self, opened: OpenedGraph) -> None:
        """Close a graph that was opened here."""
        with self._changing:
            self._graphs = [each for each in self._graphs if each is not opened]
        opened.close()

    def _choose(self, opened: OpenedGraph, candidates: Mapping[str, Candidate]) -> Choice:
        graph, policy = opened.graph, self._bench.policy
        barred = self._barred({name: each.found for name, each in candidates.items()})
        barred |= {name: each.found.problem for name, each in candidates.items() if each.found.problem is not None}
        reports = self._reports(graph, {name: each for name, each in candidates.items() if name not in barred})
        while True:
            choice = select(policy, graph.work, reports, barred)
            if choice.name == CPU:
                return choice
            chosen = candidates[choice.name]
            try:
                process = prober.open_on(self._bench, chosen, graph, _inputs(opened)).process
            except ProviderFailed as failure:
                barred[choice.name] = f"{failure.fault}: {failure}"
            else:
                opened.move(Accelerated(chosen.found, process))
                return choice

    def _reports(self, graph: GraphFile, candidates: Mapping[str, Candidate]) -> dict[str, Report]:
        """Return the reports that hold; where one is missing, they are made anew, the CPU's with them."""
        pages, told = self._book.read(), self._bench.policy.options
        reports = {}
        for name, each in {**{name: each.found for name, each in candidates.items()}, CPU: self._cpu}.items():
            known = pages.holding(graph_identity(each, graph, told.get(name, {}), self._bench.threads))
            if known is not None:
                reports[name] = known
        if not candidates.keys() - reports.keys():
            return reports
        try:
            reference = prober.refer(self._bench, graph)
        except ProviderFailed as failure:
            _logger.warning("%s cannot be tried on other providers: %s", graph.title, failure)
            return reports
        missing = [each for name, each in candidates.items() if name not in reports]
        made = [reference.report, *(prober.probe(self._bench, each, graph, reference) for each in missing)]
        return reports | {report.name: self._book.record(report) for report in made}

    def _barred(self, found: Mapping[str, Found]) -> dict[str, str]:
        kept = {**self._book.read().quarantine, **self._kept}
        return {
            name: quarantine_reason(kept[name])
            for name, each in found.items()
            if name in kept and kept[name].identity == provider_identity(each)
        }

    def _quarantine(self, graph: GraphFile, found: Found, failure: ProviderFailed) -> None:
        """Keep a provider from everything, since a request had to be computed without it."""
        _logger.error("%s is in quarantine: with %s, %s (%s)", found.name, graph.title, failure, failure.fault)
        identity = provider_identity(found)
        try:
            entry = self._book.quarantine(found.name, identity, graph.title, failure.fault, str(failure))
        except OSError as error:  # until the end of this process it holds all the same
            _logger.error("The quarantine of %s cannot be written down: %s", found.name, error)
            entry = self._book.entry(identity, graph.title, failure.fault, str(failure))
        with self._changing:
            self._kept[found.name] = entry
            graphs = list(self._graphs)
            for each in graphs:
                before = self._passed_over.get(each.graph.title, {})
                if found.name in self._bench.policy.allowed(each.graph.work):
                    self._passed_over[each.graph.title] = {**before, found.name: quarantine_reason(entry)}
        for each in graphs:
            if each.accelerated is not None and each.accelerated.found.name == found.name:
                each.move(None)


def quarantine_reason(entry: Quarantine) -> str:
    """Say why a provider is in quarantine, and what ends that."""
    since = datetime.fromtimestamp(entry.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"in quarantine since {since}: {entry.fault} with {entry.model}, {entry.detail}; "
        "a new driver or version ends that, and so does `tidegate models probe`"
    )


def _inputs(opened: OpenedGraph) -> Sequence[tuple[str, str, Sequence[int | str | None]]]:
    session = opened.session
    return [] if session is None else [(value.name, value.type, value.shape) for value in session.get_inputs()]

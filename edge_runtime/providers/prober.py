"""A probe: one provider with one graph, in a process of its own, held against what the CPU computes in float32."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.providers.adapter import Adapter, Found
from edge_runtime.providers.adapters import ADAPTERS, CPU_ADAPTER
from edge_runtime.providers.faults import Fault, ProviderFailed
from edge_runtime.providers.graph_file import GraphFile, Input, free_inputs, takes_batches
from edge_runtime.providers.identity import graph_identity
from edge_runtime.providers.process import COMMAND, ProviderProcess
from edge_runtime.providers.report import Report
from edge_runtime.providers.samples import NoSamples, Samples
from edge_runtime.residency.memory import available_bytes
from inference_protocol.provider_policy import CPU, ProviderPolicy

BATCHES = (1, 2, 4, 8)
_RUNS = 5
_MIB = 1 << 20

Answers = dict[int, dict[str, NDArray[Any]]]
"""Batch size to the outputs by name."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What probes are made with.

    Attributes:
        policy: The operator's.
        threads: Of a run on the CPU.
        cache: Folder for compiled graphs, a folder for each identity in it.
        adapters: Providers that there are.
        command: How a provider's process is started.
    """

    policy: ProviderPolicy
    threads: int
    cache: Path | None = None
    adapters: Sequence[Adapter] = ADAPTERS
    command: Sequence[str] = COMMAND

    def adapter(self, name: str) -> Adapter | None:
        """Return the provider of this name."""
        return next((each for each in self.adapters if each.name == name), None)

    def process(self) -> ProviderProcess:
        """Start a process for one provider."""
        if self.policy.memory_mib is not None:
            return ProviderProcess(self.command, memory_bytes=self.policy.memory_mib * _MIB)
        free = available_bytes()
        return ProviderProcess(self.command, memory_bytes=None if free is None else free // 2)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A provider, in a process of its own, where graphs can be opened on it.

    Attributes:
        found: What a look for it found.
        process: Its process, of no more use if it did something wrong; none where there is nothing to run.
    """

    found: Found
    process: ProviderProcess | None = None

    def close(self) -> None:
        """End its process."""
        if self.process is not None:
            self.process.close()


@dataclass(frozen=True, slots=True)
class Opened:
    """A graph on a provider, in its process."""

    process: ProviderProcess
    nodes: Mapping[str, int]
    inputs: Sequence[Input]


@dataclass(frozen=True, slots=True)
class Reference:
    """What the CPU made of the graph, and the inputs that it did so with."""

    report: Report
    inputs: Sequence[Input]
    samples: Samples
    answers: Answers = field(repr=False)


def look(bench: Bench, name: str) -> Candidate:
    """Look for a provider, in a process that may crash, and that the caller closes."""
    adapter = bench.adapter(name)
    assert adapter is not None, "the policy names providers that there are"
    absent = adapter.absent()
    if absent is not None:
        return Candidate(absent)
    process = bench.process()
    try:
        told, _ = process.ask({"do": "find", "name": name}, timeout_s=bench.policy.timeout_s)
    except ProviderFailed as failure:
        problem = f"looking for it failed: {failure}"
        return Candidate(Found(name, adapter.provider, installed=True, problem=problem), process)
    return Candidate(Found(**{**told, "devices": tuple(told["devices"])}), process)


def find(bench: Bench, name: str) -> Found:
    """Look for a provider and let go of it. The CPU is in this process anyway."""
    if name == CPU:
        return CPU_ADAPTER.find()
    candidate = look(bench, name)
    candidate.close()
    return candidate.found


def open_on(bench: Bench, candidate: Candidate, graph: GraphFile, inputs: Sequence[Input] = ()) -> Opened:
    """Open a graph on a provider. A compiled graph that does not load is thrown away and made anew, once.

    Args:
        bench: What it is done with.
        candidate: The provider.
        graph: What is opened.
        inputs: What the graph takes, where that is known.

    Raises:
        ProviderFailed: It cannot be opened there.
    """
    found = candidate.found
    adapter = bench.adapter(found.name)
    assert adapter is not None, "it was found"
    told = bench.policy.options.get(found.name, {})
    kind, free = adapter.kind(found.devices, told), free_inputs(inputs)
    if kind in adapter.static_on and free:
        raise ProviderFailed(Fault.FREE_SHAPES, _free_shapes(free, adapter.provider, kind or ""))
    cache = None if bench.cache is None else bench.cache / _identity(bench, found, graph)
    try:
        options = adapter.complete(told, cache)
    except ValueError as error:
        raise ProviderFailed(Fault.REFUSED, str(error)) from None
    if cache is None or adapter.cache_option is None:
        return _open(bench, candidate, graph, options)
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(cache.iterdir()):
        try:
            return _open(bench, candidate, graph, options)
        except ProviderFailed:
            shutil.rmtree(cache)
            cache.mkdir(mode=0o700)
    return _open(bench, candidate, graph, options)


def _open(bench: Bench, candidate: Candidate, graph: GraphFile, options: Mapping[str, str]) -> Opened:
    name, process = candidate.found.name, candidate.process
    assert process is not None, "it was found"
    asked = {"do": "open", "name": name, "path": str(graph.path), "threads": bench.threads, "options": options}
    told, _ = process.ask(asked, timeout_s=bench.policy.timeout_s)
    return Opened(process, told["nodes"], [(name, kind, shape) for name, kind, shape in told["inputs"]])


def refer(bench: Bench, graph: GraphFile) -> Reference:
    """Let the CPU run a graph.

    Raises:
        ProviderFailed: It cannot be run there, or nothing can be made up for it.
    """
    candidate = look(bench, CPU)
    try:
        opened = open_on(bench, candidate, graph)
        samples = graph.tried_with(opened.inputs)
        ms, answers = _measure(opened, samples, bench.policy.timeout_s, here=True)
        report = _report(bench, candidate.found, graph).model_copy(
            update={"nodes": opened.nodes, "ms": ms, "difference": 0.0, "peak_bytes": opened.process.peak_bytes}
        )
    except NoSamples as error:
        raise ProviderFailed(Fault.REFUSED, str(error)) from None
    except ProviderFailed as failure:
        detail = f"{graph.title} does not run with inputs that were made up for it, so it cannot be tried: {failure}"
        raise ProviderFailed(failure.fault, detail) from None
    finally:
        candidate.close()
    return Reference(report, opened.inputs, samples, answers)


def probe(bench: Bench, candidate: Candidate, graph: GraphFile, reference: Reference) -> Report:
    """Say what a provider does with a graph. It stays open there."""
    report = _report(bench, candidate.found, graph)
    if candidate.found.problem is not None:
        return report.model_copy(update={"fault": Fault.REFUSED, "detail": candidate.found.problem})
    try:
        opened = open_on(bench, candidate, graph, reference.inputs)
    except ProviderFailed as failure:
        return report.model_copy(update={"fault": failure.fault, "detail": str(failure)})
    return _probed(bench, report, opened, reference)


def _probed(bench: Bench, report: Report, opened: Opened, reference: Reference) -> Report:
    known: dict[str, Any] = {"nodes": dict(opened.nodes)}
    if not opened.nodes.get(report.provider):
        detail = f"it took none of the graph's {sum(opened.nodes.values())} nodes: the CPU would run them all"
        return report.model_copy(update=known | {"fault": Fault.CLAIMS_NOTHING, "detail": detail})
    try:
        ms, answers = _measure(opened, reference.samples, bench.policy.timeout_s)
    except ProviderFailed as failure:
        peak = opened.process.peak_bytes
        return report.model_copy(update=known | {"fault": failure.fault, "detail": str(failure), "peak_bytes": peak})
    furthest = max(difference(answers[batch], reference.answers[batch]) for batch in answers)
    known |= {"ms": ms, "peak_bytes": opened.process.peak_bytes}
    known |= {"difference": furthest if np.isfinite(furthest) else None}
    if furthest > bench.policy.tolerance:
        detail = (
            f"its numbers differ from the CPU's by {furthest:.2g} of the largest; {bench.policy.tolerance:g} may be"
        )
        known |= {"fault": Fault.DIFFERS, "detail": detail}
    return report.model_copy(update=known)


def _measure(
    opened: Opened, samples: Samples, timeout_s: float, *, here: bool = False
) -> tuple[dict[int, float], Answers]:
    """Return milliseconds by batch size, the fastest of some runs, and what came out of the last.

    The way to the process and back counts, but not for the CPU, which runs in the runtime itself when it serves.
    """
    deadline = time.monotonic() + timeout_s
    ms, answers = {}, {}
    for batch in BATCHES if takes_batches(opened.inputs) else BATCHES[:1]:
        feeds, spent = samples(batch), []
        for _ in range(1 + _RUNS):
            began = time.perf_counter()
            left_s = max(0.0, deadline - time.monotonic())
            told, answers[batch] = opened.process.ask({"do": "run"}, feeds, timeout_s=left_s)
            spent.append(told["ms"] if here else (time.perf_counter() - began) * 1000)
        ms[batch] = round(min(spent[1:]), 3)
    return ms, answers


def difference(found: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[Any]]) -> float:
    """Return the largest difference of two sets of outputs, as a part of the largest number of the wanted ones."""
    furthest = 0.0
    for name, right in wanted.items():
        told = found[name]
        if told.shape != right.shape:
            return float("inf")
        if right.dtype.kind not in "fiub":
            furthest = max(furthest, 0.0 if np.array_equal(told, right) else float("inf"))
            continue
        a, b = told.astype(np.float64), right.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        both = np.isfinite(b)
        if both.any():
            scale = float(np.abs(b[both]).max()) or 1.0
            furthest = max(furthest, float(np.abs(a[both] - b[both]).max()) / scale)
    return furthest


def _report(bench: Bench, found: Found, graph: GraphFile) -> Report:
    return Report(
        name=found.name,
        provider=found.provider,
        version=found.version,
        driver=found.driver,
        model=graph.title,
        identity=_identity(bench, found, graph),
    )


def _identity(bench: Bench, found: Found, graph: GraphFile) -> str:
    return graph_identity(found, graph, bench.policy.options.get(found.name, {}), bench.threads)


def _free_shapes(free: Mapping[str, Sequence[int | str | None]], provider: str, kind: str) -> str:
    told = "; ".join(f"`{name}` is {list(shape)}" for name, shape in free.items())
    return (
        f"the graph's {told}, and {provider} runs graphs of fixed shapes alone on this {kind}; "
        "export the graph with a number in the place of each name"
    )

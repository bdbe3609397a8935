"""What the gateway adds to a request and to an event of a stream, and what each of its parts costs.

The program under test has core 0 to itself; load and target share core 1. In one run, by turns: the target itself,
nginx as a proxy, a bare proxy over the gateway's own server and transport (the floor), and the gateway with everything
on: keys, scanner, policy, records, traces to disk. Then the gateway without each of its parts. Programs that are not
asked stand still. Rounds alternate, medians count; microseconds of processor time are what the program's process used.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import uvloop

from bench.parts import nginx, wrk
from bench.parts.gateway_chart import draw
from bench.parts.load import Load, post, run_load
from bench.parts.programs import KEY, PATH, WORDS, free_ports, program, write_settings
from bench.parts.report import Report
from bench.parts.upstream import MODEL, PACED, PACED_CHUNKS

OURS = "Tidegate"
BARE = "bare proxy"
DIRECT = "direct"
NGINX = "nginx"
STREAM_CHUNKS = 400
CONNECTIONS = (1, 16, 64)
PROMPT_KB = (1, 10, 100)
WHOLE, FAST, SLOW = "whole", "stream, as fast as it comes", "stream, 5 ms apart"
CHUNKS = {FAST: STREAM_CHUNKS, SLOW: PACED_CHUNKS}
AWAKE_S = 0.2


@dataclass(frozen=True)
class Program:
    """One that takes requests."""

    port: int
    process: psutil.Process

    @contextlib.contextmanager
    def awake(self) -> Iterator[psutil.Process]:
        """Let it run until the block ends."""
        self.process.resume()
        time.sleep(AWAKE_S)  # what it had put off meanwhile
        try:
            yield self.process
        finally:
            self.process.suspend()


@dataclass(frozen=True)
class Kind:
    """A kind of request, and from how many connections it comes."""

    prompt_kb: int
    answer: str
    connections: int

    @property
    def body(self) -> bytes:
        prompt = (WORDS * (self.prompt_kb * 1024 // len(WORDS) + 1))[: self.prompt_kb * 1024]
        body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": 64}
        if self.answer != WHOLE:
            body["stream"] = True
        if self.answer == SLOW:
            body["user"] = PACED
        return json.dumps(body).encode()


@dataclass(frozen=True)
class Round:
    """What one round came to: milliseconds of a whole answer, and of the first piece of a stream; processor time."""

    per_s: float
    p50_ms: float
    p99_ms: float
    first_ms: float | None
    cpu_us: float


KINDS = (
    *(Kind(kb, WHOLE, connections) for kb, connections in itertools.product(PROMPT_KB, CONNECTIONS)),
    *(Kind(1, answer, connections) for answer, connections in itertools.product((FAST, SLOW), CONNECTIONS)),
)
USUAL = Kind(1, WHOLE, 16)


def one_round(under_test: Program, kind: Kind, seconds: float) -> Round:
    """Load a program with one kind of request."""
    with under_test.awake() as process:
        before = process.cpu_times()
        load = _load(under_test.port, kind, seconds)
        after = process.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    first = None if kind.answer == WHOLE else load.first_ms
    return Round(load.per_s, load.percentile(0.5), load.percentile(0.99), first, cpu_s * 1e6 / load.requests)


def _load(port: int, kind: Kind, seconds: float) -> Load:
    if kind.answer == WHOLE and wrk.version() is not None:
        url = f"http://127.0.0.1:{port}{PATH}"
        return wrk.run_wrk(url, kind.body, KEY, connections=kind.connections, seconds=seconds, core=1)
    request = post(f"127.0.0.1:{port}", PATH, kind.body, KEY)
    return uvloop.run(run_load(port, request, connections=kind.connections, seconds=seconds))


def medians(rounds: list[Round]) -> dict[str, float]:
    """The median of each figure over some rounds."""
    names = [name for name, value in asdict(rounds[0]).items() if value is not None]
    return {name: statistics.median(getattr(each, name) for each in rounds) for name in names}


def compare(programs: Mapping[str, Program], *, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """A row for each kind of request and each program, with what the program adds to the target itself."""
    rows = []
    for kind in KINDS:
        found: dict[str, list[Round]] = {name: [] for name in programs}
        for _, (name, under_test) in itertools.product(range(rounds), programs.items()):
            found[name].append(one_round(under_test, kind, seconds))
        of = {name: medians(each) for name, each in found.items()}
        for name, figures in of.items():
            added = {f"added_{key}": figures[key] - of[DIRECT][key] for key in figures if key.endswith("_ms")}
            row = {"program": name, **asdict(kind), **figures, **added}
            if kind.answer in CHUNKS:
                row["cpu_us_per_chunk"] = figures["cpu_us"] / CHUNKS[kind.answer]
            rows.append(row)
        shown = ", ".join(f"{name} {figures['per_s']:.0f}" for name, figures in of.items())
        print(f"     {kind.prompt_kb} KB, {kind.answer}, {kind.connections} connections: {shown} a second", flush=True)
    return rows


def prices(variants: Mapping[str, Program], *, rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Requests a second and processor time of the gateway with everything on, and without each part."""
    found: dict[str, list[Round]] = {name: [] for name in variants}
    for _, (name, under_test) in itertools.product(range(rounds), variants.items()):
        found[name].append(one_round(under_test, USUAL, seconds))
    of = {name: medians(each) for name, each in found.items()}
    for name, figures in of.items():
        figures["saved_cpu_us"] = of[OURS]["cpu_us"] - figures["cpu_us"]
        told = f"{figures['per_s']:.0f} a second, {figures['cpu_us']:.0f} us of processor time"
        print(f"     {name}: {told}", flush=True)
    return of


def check(report: Report, rows: list[dict[str, Any]], resident_mb: float) -> None:
    """Hold the figures to the budgets."""

    def of(name: str, kind: Kind, figure: str) -> float:
        return next(
            float(row[figure]) for row in rows if row["program"] == name and asdict(kind).items() <= row.items()
        )

    one = Kind(1, WHOLE, 1)
    per_s = of(OURS, USUAL, "per_s")
    chunk_us = of(OURS, Kind(1, FAST, 1), "p50_ms") * 1000 / STREAM_CHUNKS
    report.at_least("gateway, everything on, 16 connections", per_s, 1000, "requests/s")
    report.at_least("share of the bare proxy", per_s / of(BARE, USUAL, "per_s"), 0.4, "")
    report.at_most("added to the median, one connection", of(OURS, one, "added_p50_ms"), 1.0, "ms")
    report.at_most(f"one of {STREAM_CHUNKS} relayed events, all costs of its stream shared out", chunk_us, 50, "us")
    report.at_most("gateway resident memory", resident_mb, 150, "MB")


class Stage:
    """The programs of a run, each started, warmed and stopped until it is asked."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        [self._upstream] = free_ports(1)
        serve = [sys.executable, "-m", "bench.parts.upstream", str(self._upstream), str(STREAM_CHUNKS)]
        self._target = stack.enter_context(program(serve, self._upstream, 1, folder / "upstream.log"))

    def programs(self) -> dict[str, Program]:
        """All that stand beside the gateway; nginx only where there is one."""
        found = {DIRECT: _Always(self._upstream, psutil.Process(self._target))}
        [port] = free_ports(1)
        if nginx.version() is not None:
            found[NGINX] = self._start(NGINX, nginx.command(self._folder, port, self._upstream), port)
        [port] = free_ports(1)
        bare = [sys.executable, "-m", "bench.parts.bare_proxy", str(port), str(self._upstream)]
        return found | {BARE: self._start(BARE, bare, port)}

    def gateway(self, without: str = "") -> Program:
        """The gateway, without a part where one is named."""
        [port] = free_ports(1)
        folder = self._folder / f"gateway-{without}"
        folder.mkdir()
        settings = write_settings(folder, port, self._upstream, **({"auth": {}} if "keys" in without else {}))
        module = ["bench.parts.gateway_without", without] if without else ["gateway.cli"]
        command = [sys.executable, "-m", *module, "serve", "--settings", str(settings)]
        return self._start(f"gateway-{without}", command, port)

    def _start(self, name: str, command: list[str], port: int) -> Program:
        pid = self._stack.enter_context(program(command, port, 0, self._folder / f"{name}.log"))
        # A program that stands still does not hear that it should end.
        self._stack.callback(psutil.Process(pid).resume)
        found = Program(port, psutil.Process(pid))
        time.sleep(1.0)  # the first polls
        one_round(found, USUAL, 1.0)  # warm
        return found


class _Always(Program):
    """The target, which everybody needs."""

    @contextlib.contextmanager
    def awake(self) -> Iterator[psutil.Process]:
        yield self.process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("bench/results/gateway.json"))
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    chosen = parser.parse_args()
    how = {"rounds": 1, "seconds": 1.0} if chosen.quick else {"rounds": 3, "seconds": 1.5}
    report = Report("gateway")
    versions = {"nginx": nginx.version(), "load_generator": wrk.version() or "bundled", "of_streams": "bundled"}
    report.raw |= {"made_with": versions, "how": how}
    os.sched_setaffinity(0, {1 % (os.cpu_count() or 1)})
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        stage = Stage(stack, Path(temporary))
        ours = stage.gateway()
        programs = stage.programs() | {OURS: ours}
        report.raw["rows"] = rows = compare(programs, **how)
        without = {f"without {part}": stage.gateway(part) for part in ("keys", "scanner", "records", "traces")}
        bare = {"without any of these": stage.gateway("keys,scanner,records,traces")}
        report.raw["parts"] = prices({OURS: ours} | without | bare, **how)
        memory = {name: each.process.memory_info().rss / 1e6 for name, each in programs.items()}
        report.raw["resident_mb"] = memory
    check(report, rows, memory[OURS])
    report.write(chosen.output)
    draw(report.raw, chosen.output.with_suffix(".png"))


if __name__ == "__main__":
    main()

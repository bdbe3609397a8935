"""Where a step of decoding spends its time, by kind of node: ONNX Runtime's own profile of the default model's graph.

Profiling makes each node a few microseconds dearer, so shares count, and the step is timed without it as well.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import onnxruntime as ort

from bench.parts.report import Report
from bench.parts.smollm import edge_folder, gb_per_token
from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from edge_runtime.measuring.bandwidth import measure_bandwidth
from edge_runtime.providers import cpu
from edge_runtime.providers.sessions import session_options

STEPS = 128
PROMPT = 64
ROWS = (1, 8)


def step_ms(folder: Path, rows: int) -> float:
    """Return the median milliseconds of a step, without a profile."""
    return statistics.median(_decode(_graph(folder, rows), rows))


def node_ms(folder: Path, rows: int) -> dict[str, float]:
    """Return the milliseconds of a step that each kind of node takes, the dearest first; runs of a profiled graph."""
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        with patch.object(cpu, "session_options", _profiled):
            graph = _graph(folder, rows)
            steps = len(_decode(graph, rows))
            del graph  # which writes the profiles
        profiles = [json.loads(path.read_text(encoding="utf-8")) for path in Path(scratch).glob("*.json")]
    decoding = max(profiles, key=lambda events: sum(event["name"] == "model_run" for event in events))
    spent: Counter[str] = Counter()
    for event in decoding:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            spent[event["args"]["op_name"]] += event["dur"]
    return {name: micros / 1000 / steps for name, micros in spent.most_common()}


def _graph(folder: Path, rows: int) -> DecoderGraph:
    threads = len(os.sched_getaffinity(0))
    return DecoderGraph(folder, read_genai_config(folder), slots=rows, window=PROMPT + 2 * STEPS, threads=threads)


def _decode(graph: DecoderGraph, rows: int) -> list[float]:
    for slot in range(rows):
        graph.read(slot, range(100, 100 + PROMPT), 0, ())
    taken = []
    for step in range(STEPS):
        began = time.perf_counter()
        graph.decode([100 + step] * rows, [PROMPT + step] * rows)
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def _profiled(threads: int) -> ort.SessionOptions:
    options = session_options(threads)
    options.enable_profiling = True
    return options


def main() -> None:
    """Print the table, and write it where an argument says."""
    folder = edge_folder()
    report = Report("step_profile")
    report.raw["bandwidth_gb_per_s"] = bandwidth = measure_bandwidth(len(os.sched_getaffinity(0))) / 1e9
    gb = report.raw["gb_per_token"] = gb_per_token(folder)
    for rows in ROWS:
        whole, nodes = step_ms(folder, rows), node_ms(folder, rows)
        report.raw[f"rows_{rows}"] = {"step_ms": whole, "nodes_ms": nodes}
        print(f"{rows} rows: {whole:.2f} ms a step, without a profile")
        for name, milliseconds in nodes.items():
            print(f"  {name:24} {milliseconds:7.3f} ms  {milliseconds / sum(nodes.values()):4.0%}")
        print(f"  weights at {gb / nodes['MatMulNBits'] * 1000:.1f} GB/s of {bandwidth:.1f}")
    if len(sys.argv) > 1:
        report.write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()

"""The edge engine against llama.cpp on the very same GGUF, and against onnxruntime-genai's own int4 build of it.

Servers are asked in turn over their own OpenAI endpoints, by one client, with prompts of token ids that nobody has seen
before; rounds alternate, medians count. `--gguf` and `--llama-cpp` name what would else be fetched and built under
`--cache`. `--shapes` adds random weights in the shape of larger models. The picture goes beside the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from bench.parts import genai_peer, llama_cpp
from bench.parts.edge_chart import draw
from bench.parts.gguf_shapes import SHAPES, Shape, write_exact, write_random
from bench.parts.report import Report
from bench.parts.smollm import (
    cloud_folder,
    edge_folder,
    ending_tokens,
    fetch_gguf,
    gate_figures,
    gb_per_token,
    import_gguf,
)
from bench.parts.token_streams import Burst, Place, burst
from edge_runtime.build.held_out import ENGLISH
from edge_runtime.measuring.bandwidth import measure_bandwidth
from gateway.cli.runtimes import edge_environment
from tests.support.running_gateway import free_port

STREAMS = (1, 2, 4, 8)
PROMPTS = (64, 512, 1000, 4000)
TOKENS = 64
SLOTS = 8
CONTEXT = 4608
US, LLAMA, GENAI = "tidegate", "llama.cpp", "onnxruntime-genai"


@dataclass(frozen=True)
class Server:
    """A running server: where it is asked, and its process."""

    place: Place
    pid: int

    @property
    def resident_mb(self) -> float:
        return psutil.Process(self.pid).memory_info().rss / 1e6


@dataclass(frozen=True)
class Subject:
    """One set of weights, as both engines read it.

    Attributes:
        folder: Ours.
        streams, prompts, rounds: How much is asked of it.
    """

    name: str
    gguf: Path
    folder: Path
    ending: tuple[int, ...]
    streams: tuple[int, ...] = STREAMS
    prompts: tuple[int, ...] = PROMPTS
    rounds: int = 3


@contextlib.contextmanager
def our_server(subject: Subject, scratch: Path) -> Iterator[Server]:
    """Run the edge runtime on a Unix socket until the block ends."""
    socket = scratch / "edge.sock"
    command = [sys.executable, "-m", "edge_runtime", "--model-dir", str(subject.folder), "--model-name", subject.name]
    command += ["--socket", str(socket), "--slots", str(SLOTS), "--context", str(CONTEXT)]
    log = scratch / "edge.log"
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=edge_environment(os.environ))
    try:
        end = time.monotonic() + 300
        while not _answers(socket):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(log.read_text(encoding="utf-8")[-2000:])
            time.sleep(0.2)
        yield Server(socket, process.pid)
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def llama_server(subject: Subject, binaries: Path, scratch: Path) -> Iterator[Server]:
    """Run `llama-server` until the block ends."""
    port, threads = free_port(), len(os.sched_getaffinity(0))
    log = scratch / "llama.log"
    with llama_cpp.server(binaries, subject.gguf, port, slots=SLOTS, context=CONTEXT, threads=threads, log=log) as pid:
        yield Server(port, pid)


class Asker:
    """Asks a server, never twice for the same prompt."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._random = np.random.default_rng(11)

    def ask(self, server: Server, streams: int, length: int, tokens: int) -> Burst:
        prompts = self._random.integers(1000, 40_000, (streams, length)).tolist()
        subject = self._subject
        return asyncio.run(burst(server.place, subject.name, prompts, tokens=tokens, ending=subject.ending))


def _default(gguf: Path) -> Subject:
    folder = edge_folder()
    return Subject("smollm2-135m-instruct", gguf, folder, ending_tokens(folder))


def _random(shape: Shape, tokenizer: Path, cache: Path) -> Subject:
    path = cache / f"{shape.name}.gguf"
    if not path.exists():
        write_random(shape, tokenizer, path)
    folder = import_gguf(path, cache / "models")
    return Subject(shape.name, path, folder, ending_tokens(folder), streams=(1, 8), prompts=(64, 512), rounds=1)


def measure(subject: Subject, start: dict[str, Callable[[], Any]]) -> dict[str, dict[str, Any]]:
    """Ask every server for everything, in rounds that alternate between them. One runs at a time."""
    asker = Asker(subject)
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in start}
    for number in range(subject.rounds):
        for name, server in start.items():
            with server() as running:
                rounds[name].append(_round(asker, subject, running))
                print(f"{subject.name}: {name}, round {number + 1} of {subject.rounds}", flush=True)
    return {name: _median(found) for name, found in rounds.items()}


def _round(asker: Asker, subject: Subject, server: Server) -> dict[str, Any]:
    asker.ask(server, 1, 64, 16)  # warm
    found: dict[str, Any] = {}
    for streams in subject.streams:
        answers = asker.ask(server, streams, 64, TOKENS)
        found[f"tokens_per_s_{streams}"] = answers.tokens_per_s
        found[f"gap_p50_ms_{streams}"] = answers.gap_ms(0.5)
        found[f"gap_p99_ms_{streams}"] = answers.gap_ms(0.99)
        if streams == 1:
            found["decode_per_s"] = answers.streams[0].decode_per_s
    for length in subject.prompts:
        found[f"ttft_ms_{length}"] = asker.ask(server, 1, length, 2).streams[0].first_ms
    found["resident_mb"] = server.resident_mb
    return found


def _median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: statistics.median(found[key] for found in rounds) for key in rounds[0]}


def _answers(socket: Path) -> bool:
    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket))) as client:
            return client.get("http://edge/readyz").status_code == 200
    except httpx.TransportError:
        return False


def of_genai(stand_in: Path, scratch: Path) -> dict[str, Any]:
    """Build int4 with onnxruntime-genai's builder from the float32 folder, and measure it in a process of its own."""
    folder = scratch / "genai-int4"
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(stand_in), "-o", str(folder)]
    command += ["-p", "int4", "-e", "cpu", "-c", str(scratch / "cache")]
    subprocess.run(command, check=True, capture_output=True)
    lengths = ",".join(str(length) for length in PROMPTS)
    done = subprocess.run(
        [sys.executable, "-m", genai_peer.__name__, str(folder), lengths, str(TOKENS)],
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def check(report: Report, ours: dict[str, Any], theirs: dict[str, Any], bench: dict[str, float], gb: float) -> None:
    """The budgets, all of them ratios within this run but for the quality."""
    decode = ours["decode_per_s"]
    report.at_least("decode, one stream, of llama-bench's", decode / bench["tg128"], 1.15, "x")
    report.at_least("decode, one stream, of llama-server's", decode / theirs["decode_per_s"], 1.15, "x")
    bandwidth = report.raw["bandwidth_gb_per_s"]
    report.at_least("share of the bandwidth", decode * gb / bandwidth, 0.55, "")
    report.at_least("eight at once, of llama-server's", ours["tokens_per_s_8"] / theirs["tokens_per_s_8"], 1.7, "x")
    report.at_most("first token of 1,000, of llama-server's", ours["ttft_ms_1000"] / theirs["ttft_ms_1000"], 0.5, "x")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=Path("bench/results/edge.json"))
    parser.add_argument("--cache", type=Path, default=Path("var/bench"), help="what is built and fetched once")
    parser.add_argument("--gguf", type=Path, help="the default model's file, instead of fetching it")
    parser.add_argument("--llama-cpp", type=Path, help="a folder with its programs, instead of building them")
    parser.add_argument("--shapes", action="store_true", help="also 0.5B and 1.5B; a quarter of an hour more")
    chosen = parser.parse_args()
    chosen.cache.mkdir(parents=True, exist_ok=True)
    binaries = (chosen.llama_cpp or llama_cpp.programs(chosen.cache)).absolute()
    gguf = (chosen.gguf or fetch_gguf(chosen.cache)).absolute()
    threads = len(os.sched_getaffinity(0))
    report = Report("edge")
    report.raw["bandwidth_gb_per_s"] = measure_bandwidth(threads) / 1e9
    report.raw["models"] = {}
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        subjects = [_default(gguf)]
        if chosen.shapes:
            subjects += [_random(shape, gguf, chosen.cache) for shape in SHAPES]
        for subject in subjects:
            servers = {
                US: lambda subject=subject: our_server(subject, scratch),
                LLAMA: lambda subject=subject: llama_server(subject, binaries, scratch),
            }
            found = measure(subject, servers)
            speeds = llama_cpp.bench(binaries, subject.gguf, threads=threads, prompts=subject.prompts, rounds=3)
            report.raw["models"][subject.name] = {**found, "llama-bench": speeds}
        first = report.raw["models"][subjects[0].name]
        first[GENAI] = of_genai(cloud_folder(), scratch)
        first[US] |= gate_figures(subjects[0].folder)
        text = scratch / "text.txt"
        text.write_text(3 * ENGLISH, encoding="utf-8")
        exact = write_exact(gguf, scratch / "exact.gguf")
        first[LLAMA] |= llama_cpp.divergence(binaries, exact, gguf, text, threads=threads, scratch=scratch)
    check(report, first[US], first[LLAMA], first["llama-bench"], gb_per_token(subjects[0].folder))
    report.write(chosen.output)
    draw(report.raw, chosen.output.with_suffix(".png"))


if __name__ == "__main__":
    main()

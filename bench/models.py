"""What the default model is worth beside its alternatives: size, what each loses against float32, how fast it is.

All are the same SmolLM2-135M-Instruct. The edge's default carries the blocks of its GGUF file over; the alternatives
quantize its float32 values, with columns shuffled so that those very blocks do not come out again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bench.parts import llama_cpp
from bench.parts.llama_logits import log_probabilities
from bench.parts.report import Report
from bench.parts.shuffled import write_shuffled
from bench.parts.smollm import cloud_folder, edge_folder, fetch_gguf
from edge_runtime.build import gate
from edge_runtime.build.held_out import ENGLISH
from edge_runtime.build.huggingface.builder import build_folder
from edge_runtime.build.huggingface.config import read_config
from edge_runtime.build.huggingface.folder import write_folder
from edge_runtime.build.huggingface.tensors import Precision
from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from edge_runtime.measuring.bandwidth import measure_bandwidth
from gateway.cli.runtimes import edge_environment
from runtime_server import model_manifest
from runtime_server.cpus import usable_cpus
from tests.support.running_gateway import free_port

POSITIONS = range(8, 200, 4)  # of the text, where llama.cpp's logits are asked for
Floats = NDArray[np.float64]


def alternatives(source: Path, work: Path) -> Iterator[tuple[str, Path]]:
    """Make each of them, one after the other."""

    def ours(precision: Precision, folder: Path) -> None:
        write_folder(source, read_config(source), None, precision, folder)

    def builders(precision: Precision, folder: Path) -> None:
        with (work / "lock").open("w") as lock:
            build_folder(source, precision, folder, cache=work, lock=lock.fileno())

    ways: list[tuple[str, Callable[[Precision, Path], None], Precision]] = [
        ("float32", ours, Precision.FP32),
        ("int8, quantized here", ours, Precision.INT8),
        ("int8, model builder", builders, Precision.INT8),
        ("int4, quantized here", ours, Precision.INT4),
        ("int4, model builder", builders, Precision.INT4),
    ]
    for number, (name, write, precision) in enumerate(ways):
        folder = work / str(number)
        folder.mkdir()
        write(precision, folder)
        complete(folder)
        yield name, folder


def complete(folder: Path) -> None:
    """Give a folder the manifest that the engine asks for."""
    files = model_manifest.hash_folder(folder)
    manifest = model_manifest.Manifest(
        name=folder.name,
        public_model="bench",
        digest=model_manifest.digest_of(files),
        files=files,
        source={},
        format="onnx-genai",
        window=read_genai_config(folder).context_length,
        created_by={},
    )
    model_manifest.write_manifest(folder, manifest)


def measure(name: str, folder: Path, reference: Path) -> dict[str, Any]:
    figures = gate.measure(folder, reference)
    speed = measured(folder)
    row = {
        "name": name,
        "mb": sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        **{key: speed[key] for key in ("mb_per_token", "tokens_per_s", "prefill_tokens_per_s", "ms_per_step")},
        "share_of_ceiling": speed["share_of_ceiling"],
        **figures.model_dump(exclude={"forced"}),
    }
    print(f"     {name}: {row['mb']:.0f} MB, KL {row['mean_kl']}, {row['tokens_per_s']:.0f} tokens/s", flush=True)
    return row


def measured(folder: Path) -> dict[str, Any]:
    """What `tidegate bench` finds, in a process that is started as the edge runtime is."""
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "edge_runtime.measuring", "bench", "--json", "--model-dir", str(folder)]
        command += ["--profile", f"{temporary}/device.json"]
        environment = edge_environment(os.environ)
        found: dict[str, Any] = json.loads(
            subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
        )
        return found


def beside_llama_cpp(binaries: Path, gguf: Path, exact: Path, reference: Path) -> dict[str, float]:
    """Mean KL and top-1 agreement between llama.cpp, our graphs and float32, at some positions of the text."""
    tokens = Tokenizer.from_file(str(exact / "tokenizer.json")).encode(ENGLISH, add_special_tokens=False).ids
    config = read_genai_config(exact)
    ours, float32 = (
        DecoderGraph(folder, config_of, slots=2, window=512, threads=usable_cpus())
        for folder, config_of in ((exact, config), (reference, read_genai_config(reference)))
    )
    theirs, prompts, steps, expected = [], [], [], []
    port, log = free_port(), reference / "llama.log"
    with llama_cpp.server(binaries, gguf, port, slots=1, context=512, threads=usable_cpus(), log=log):
        for end in POSITIONS:
            theirs.append(log_probabilities(port, tokens[:end], config.vocab_size))
            expected.append(log_softmax(float32.prefill(0, tokens[:end], 0)))
            prompts.append(log_softmax(ours.prefill(0, tokens[:end], 0)))
            ours.prefill(0, tokens[: end - 1], 0)
            steps.append(log_softmax(ours.decode(tokens[end - 1 : end], [end - 1])[0]))
    found = {}
    for name, one, other in (
        ("prefill against float32", expected, prompts),
        ("llama.cpp against float32", expected, theirs),
        ("llama.cpp against prefill", prompts, theirs),
        ("one decoded token against llama.cpp", theirs, steps),
    ):
        found[f"{name}: mean KL"] = float(np.mean([kl(p, q) for p, q in zip(one, other, strict=True)]))
        found[f"{name}: top-1"] = float(np.mean([p.argmax() == q.argmax() for p, q in zip(one, other, strict=True)]))
    return found


def log_softmax(logits: NDArray[np.float32]) -> Floats:
    shifted = logits.astype(np.float64) - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def kl(expected: Floats, found: Floats) -> float:
    seen = np.isfinite(expected) & np.isfinite(found)
    return float((np.exp(expected[seen]) * (expected[seen] - found[seen])).sum())


def budgets(report: Report, rows: list[dict[str, Any]]) -> None:
    exact, float32 = rows[0], next(row for row in rows if row["name"] == "float32")
    int4 = next(row for row in rows if row["name"] == "int4, model builder")
    int8 = next(row for row in rows if row["name"] == "int8, model builder")
    report.at_most("exact import: mean KL against float32", exact["mean_kl"], 0.01, "nats")
    report.at_least("exact import: top-1 agreement", exact["top1_agreement"], 0.96, "")
    report.at_most("exact import: KL beside the builder's int4", exact["mean_kl"] / int4["mean_kl"], 0.1, "")
    report.at_most("exact import: size beside the builder's int8", exact["mb"] / int8["mb"], 0.5, "")
    report.at_least("exact import: decode beside float32", exact["tokens_per_s"] / float32["tokens_per_s"], 2.0, "")
    report.at_least("exact import: share of memory's ceiling", exact["share_of_ceiling"], 0.55, "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--llama-cpp", type=Path, help="a folder of llama.cpp's programs, to compare logits with")
    parser.add_argument("--gguf", type=Path, help="the default model's file for that, else fetched")
    asked = parser.parse_args()
    exact = edge_folder().resolve()
    report = Report("models")
    bytes_per_s = measure_bandwidth(usable_cpus())
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        source = write_shuffled(cloud_folder().resolve(), work / "shuffled")
        made = list(alternatives(source, work))
        reference = made[0][1]
        rows = [measure("exact import, Q4_1", exact, reference)]
        rows += [measure(name, folder, reference) for name, folder in made]
        report.raw |= {"memory_gb_per_s": bytes_per_s / 1e9, "models": rows}
        if asked.llama_cpp is not None:
            gguf = asked.gguf or fetch_gguf(work)
            report.raw["llama_cpp"] = beside_llama_cpp(asked.llama_cpp, gguf, exact, reference)
    budgets(report, rows)
    report.write(asked.output)


if __name__ == "__main__":
    main()

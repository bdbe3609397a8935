"""llama.cpp, from the sources inside the `llama-cpp-python` distribution: built once, then run as a peer."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REQUIREMENT = "llama-cpp-python==0.3.36"
_PROGRAMS = ("llama-bench", "llama-server", "llama-perplexity")
_OFF = ("LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_UI")


def programs(cache: Path) -> Path:
    """The folder of its programs; building them takes ten minutes, a compiler and CMake, once."""
    build = cache / REQUIREMENT.replace("==", "-")
    binaries = build / "bin"
    if all((binaries / name).is_file() for name in _PROGRAMS):
        return binaries
    sources = _sources(cache)
    print(f"Building llama.cpp in {build}: about ten minutes, once.", flush=True)
    off = [f"-D{name}=OFF" for name in _OFF]
    configure = ["cmake", "-S", str(sources), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", *off]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    make = ["cmake", "--build", str(build), f"-j{os.cpu_count()}", "--target", *_PROGRAMS]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    return binaries


def _sources(cache: Path) -> Path:
    cache.mkdir(parents=True, exist_ok=True)
    found = next(cache.glob("llama_cpp_python-*/vendor/llama.cpp"), None)
    if found is not None:
        return found
    pip = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--no-binary", ":all:", "--dest", str(cache)]
    subprocess.run([*pip, REQUIREMENT], check=True)
    [archive] = cache.glob("llama_cpp_python-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(cache, filter="data")
    return next(cache.glob("llama_cpp_python-*/vendor/llama.cpp"))


def bench(binaries: Path, model: Path, *, threads: int, prompts: tuple[int, ...], rounds: int) -> dict[str, float]:
    """What `llama-bench` says, in tokens a second: `pp<N>` for reading N tokens, `tg128` for writing."""
    lengths = ",".join(str(length) for length in prompts)
    command = [str(binaries / "llama-bench"), "-m", str(model), "-t", str(threads), "-p", lengths, "-n", "128"]
    done = subprocess.run([*command, "-r", str(rounds), "-o", "json"], check=True, capture_output=True, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return {f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}": row["avg_ts"] for row in rows}


@contextlib.contextmanager
def server(
    binaries: Path, model: Path, port: int, *, slots: int, context: int, threads: int, log: Path
) -> Iterator[int]:
    """Run `llama-server` until the block ends; yields its process id."""
    command = [str(binaries / "llama-server"), "-m", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["-np", str(slots), "-c", str(slots * context), "-t", str(threads), "-tb", str(threads), "--offline"]
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        _until_ready(port, process, log)
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


def _until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(log.read_text(encoding="utf-8")[-2000:])
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
            return
        time.sleep(0.2)
    raise RuntimeError("llama-server does not become ready")


def divergence(
    binaries: Path, exact: Path, model: Path, text: Path, *, threads: int, scratch: Path
) -> dict[str, float]:
    """`llama-perplexity`'s own comparison of a model with its float32 expansion: mean KL and top-1 agreement."""
    common = [str(binaries / "llama-perplexity"), "-f", str(text), "-t", str(threads), "-c", "256", "-b", "256"]
    logits = scratch / "exact.kld"
    subprocess.run([*common, "-m", str(exact), "--kl-divergence-base", str(logits)], check=True, capture_output=True)
    compare = [*common, "-m", str(model), "--kl-divergence-base", str(logits), "--kl-divergence"]
    done = subprocess.run(compare, check=True, capture_output=True, text=True)
    figures = {}
    for line in (done.stdout + done.stderr).splitlines():
        if line.startswith("Mean    KLD:"):
            figures["mean_kl"] = float(line.split()[2])
        if line.startswith("Same top p:"):
            figures["top1_agreement"] = float(line.split()[3]) / 100
    return figures

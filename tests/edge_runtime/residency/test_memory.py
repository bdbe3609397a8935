"""What a model will take is told before it is loaded, and compared with what this process may take."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.residency.memory import available_bytes, cache_bytes, memory_need

MEBIBYTE = 1 << 20


def machine(root: Path, *, free_kb: int = 4_000_000, **cgroups: tuple[str, int, int]) -> Path:
    """A machine with cgroups: path with `_` for `/`, to limit, usage and inactive files."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:    {free_kb} kB\n")
    deepest = max(cgroups, key=len, default="")
    (root / "proc/self/cgroup").write_text(f"0::/{deepest.replace('_', '/')}\n")
    for name, (limit, used, inactive) in cgroups.items():
        folder = root / "sys/fs/cgroup" / name.replace("_", "/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")
    return root


def test_what_is_left_is_the_least_of_machine_and_cgroups(tmp_path: Path) -> None:
    assert available_bytes(machine(tmp_path / "a", free_kb=1000)) == 1_024_000
    limited = machine(tmp_path / "b", app=("1000000", 700_000, 100_000))
    assert available_bytes(limited) == 400_000
    inner = machine(tmp_path / "c", app=("1000000", 900_000, 0), app_inner=("max", 1, 0))
    assert available_bytes(inner) == 100_000
    over = machine(tmp_path / "d", app=("1000", 5000, 0))
    assert available_bytes(over) == 0
    assert available_bytes(tmp_path / "nothing") is None


@pytest.mark.models
def test_what_a_model_takes_is_foreseen_and_its_cache_is_as_large_as_it_says(edge_model: Path) -> None:
    need = memory_need(edge_model, slots=4, context=2048)
    decoder = read_genai_config(edge_model).decoder
    assert need.cache == cache_bytes(decoder, slots=4, window=2048) == 30 * 2 * 3 * 64 * 4 * 4 * 2048
    assert need.total == sum(dataclasses.astuple(need))
    half = memory_need(edge_model, slots=2, context=1024)
    assert half.cache == need.cache // 4
    assert (half.weights, half.total < need.total) == (need.weights, True)
    assert memory_need(edge_model, slots=4, context=1 << 20).cache == need.cache * 4, "the model's own window caps it"


@pytest.mark.models
def test_loading_takes_no_more_than_was_foreseen_and_not_much_less(edge_model: Path) -> None:
    import subprocess
    import sys

    program = (
        "import re, sys, time, edge_runtime\n"
        "from pathlib import Path\n"
        "from edge_runtime.generation.genai_config import read_genai_config\n"
        "from edge_runtime.generation.graph import DecoderGraph\n"
        "from edge_runtime.generation.warm_up import warm_up\n"
        "folder = Path(sys.argv[1])\n"
        "def private():\n"
        "    rollup = Path('/proc/self/smaps_rollup').read_text()\n"
        "    return 1024 * sum(map(int, re.findall(r'Private_\\w+: +(\\d+)', rollup)))\n"
        "before = private()\n"
        "graph = DecoderGraph(folder, read_genai_config(folder), slots=2, window=1024, threads=1)\n"
        "warm_up(graph, window=1024, clock=time.monotonic)\n"
        "print(private() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, edge_model], capture_output=True, text=True, check=True)
    taken, need = int(done.stdout), memory_need(edge_model, slots=2, context=1024)
    assert taken < need.total < 2 * taken

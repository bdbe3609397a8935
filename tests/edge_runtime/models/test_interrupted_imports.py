"""Imports under kill -9 at random points: of a file, and of a folder, which is quantized and compared with float32."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType
from rich.console import Console

from edge_runtime.build.gguf_import import import_gguf
from edge_runtime.build.huggingface.tensors import Precision
from edge_runtime.build.huggingface_import import import_huggingface
from edge_runtime.build.progress import Steps
from edge_runtime.models.staging import staging
from edge_runtime.models.store import ModelStore
from tests.support import huggingface_files
from tests.support.gguf_files import make_contents

ROUNDS = 12
LONGEST_S = 0.9

# What every import loads is loaded once; each round is a child of its own, killed after a while.
KILLED_OVER_AND_OVER = """
import os, signal, sys, time
from pathlib import Path
from tests.edge_runtime.models.test_interrupted_imports import import_without_end
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        import_without_end(*map(Path, sys.argv[1:3]))
    time.sleep(float(line))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else f"ended by itself: {status}", flush=True)
"""


def import_without_end(models: Path, sources: Path) -> None:
    """Import a file and a folder in turn; each version is removed again, so that it is made anew."""
    steps = Steps(Console(quiet=True))
    store = ModelStore(models)
    while True:
        import_gguf(sources / "tiny.gguf", "tiny", models, steps, force=True)
        import_huggingface(sources / "folder", "tiny", models, steps, precision=Precision.INT8, force=True)
        for version in store.versions("tiny"):
            if not version.active:
                store.remove(version)


def test_kill_9_at_any_moment_of_an_import_leaves_the_store_sound_and_the_running_model_as_it_was(
    tmp_path: Path,
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201  # a failure is told with it
    chance = random.Random(seed)
    store, sources = ModelStore(tmp_path / "models"), tmp_path / "sources"
    sources.mkdir()
    made = make_contents(kind=GGMLQuantizationType.F32)
    made.write(sources / "tiny.gguf")
    huggingface_files.write_model(sources / "folder", made, huggingface_files.tensors_of(made))
    import_gguf(sources / "tiny.gguf", "running", store.root, Steps(Console(quiet=True)), force=True)
    running = store.active("running")
    assert running is not None
    command = [sys.executable, "-c", KILLED_OVER_AND_OVER, str(store.root), str(sources)]
    with (
        store.lease("running") as lease,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
        ) as killer,
    ):
        assert killer.stdin is not None
        assert killer.stdout is not None
        cut_off = 0
        for _ in range(ROUNDS):
            killer.stdin.write(f"{chance.uniform(0, LONGEST_S)}\n")
            killer.stdin.flush()
            assert killer.stdout.readline() == "killed\n"
            cut_off += (store.root / ".building").exists()
            assert_whole(store)
            assert lease.folder == running.folder
            running.verify()
        killer.stdin.close()
    assert cut_off, "no import was ever cut off"


def assert_whole(store: ModelStore) -> None:
    """What is visible is whole and signed, the next import may begin, and finds nothing of the one before."""
    for name in store.names():
        for version in store.versions(name):
            version.verify()
        active = store.active(name)
        assert active is None or store.vouchers(active) == ["this-box"]
    store.sweep()
    with staging(store.root, when_busy=lambda: pytest.fail("the lock outlived its process")) as work:
        assert list(work.folder.iterdir()) == []
    assert {path.name for path in store.root.iterdir()} <= {"tiny", "running", ".versions", ".lock"}

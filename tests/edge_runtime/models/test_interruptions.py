"""The store under kill -9 at random points, and on a disk that is full."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge_runtime.models import exchange, switch
from edge_runtime.models.keys import own_key
from edge_runtime.models.staging import staging
from edge_runtime.models.store import ModelStore
from edge_runtime.models.version import Version
from runtime_server import model_manifest
from runtime_server.model_signature import sign
from tests.edge_runtime.models.conftest import Publish, write_model

ROUNDS = 50
LONGEST_S = 0.12
MOST_STEPS = 40

# Forks a child that changes the store without end, kills it after a while, and says so: one line of input a round.
KILLED_OVER_AND_OVER = """
import os, random, signal, sys, time
from pathlib import Path
from tests.edge_runtime.models.test_interruptions import change_without_end
for line in sys.stdin:
    seed, delay_s = line.split()
    child = os.fork()
    if child == 0:
        change_without_end(Path(sys.argv[1]), random.Random(int(seed)))
    time.sleep(float(delay_s))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else f"ended by itself: {status}", flush=True)
"""


def change_without_end(root: Path, chance: random.Random) -> None:
    """Publish, activate, roll back, remove and adopt, as fast as the disk allows."""
    from edge_runtime.models.errors import StoreError

    store = ModelStore(root)
    while True:
        try:
            what = chance.randrange(5)
            if what <= 1:
                publish_one(store, chance.randbytes(4).hex().encode())
            elif what == 2:
                store.rollback("tiny")
            elif what == 3:
                old = [version for version in store.versions("tiny") if not version.active]
                store.remove(chance.choice(old)) if old else None
            else:
                write_model(root / f"old-{chance.randrange(1 << 30)}")
                store.adopt(max(root.glob("old-*")).name)
        except StoreError:  # nothing to roll back, or in use
            pass


def publish_one(store: ModelStore, content: bytes) -> Version:
    with staging(store.root, when_busy=lambda: None) as work:
        staged = write_model(work.folder / "tiny", content=content)
        sign(staged, own_key(store.keys))
        return store.activate(store.publish(staged))


def assert_sound(store: ModelStore) -> Version:
    """Everything that is visible is whole, and what is active is signed; leftovers go with the next change."""
    for name in store.names():
        for version in store.versions(name):
            version.verify()
    active = store.active("tiny")
    assert active is not None
    assert store.vouchers(active) == ["this-box"]
    store.sweep()
    with staging(store.root, when_busy=lambda: pytest.fail("the lock outlived its process")):
        pass
    kept = {path.name for path in store.root.iterdir() if not path.name.startswith("old-")}
    assert kept == {"tiny", ".versions", ".lock"}
    ids = {version.id for version in store.versions("tiny")}
    assert {path.name for path in (store.root / ".versions" / "tiny").iterdir()} <= ids | {"earlier.json"}
    return active


def test_kill_9_at_any_moment_leaves_the_store_sound_and_the_running_model_as_it_was(store: ModelStore) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201  # a failure is told with it
    chance = random.Random(seed)
    running = publish_one(store, b"running")
    seen = set()
    with (
        store.lease("tiny") as lease,
        subprocess.Popen(
            [sys.executable, "-c", KILLED_OVER_AND_OVER, str(store.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        ) as killer,
    ):
        assert killer.stdin is not None
        assert killer.stdout is not None
        for _ in range(ROUNDS):
            killer.stdin.write(f"{chance.randrange(1 << 30)} {chance.uniform(0, LONGEST_S)}\n")
            killer.stdin.flush()
            assert killer.stdout.readline() == "killed\n"
            seen.add(assert_sound(store).id)
            assert lease.folder == running.folder
            running.verify()
        killer.stdin.close()
    assert len(seen) > 5, "the store was hardly ever changed"


@pytest.mark.parametrize("exchanges", [True, False])
def test_an_adoption_that_is_cut_off_anywhere_is_finished_by_the_next_change(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    if not exchanges:
        monkeypatch.setattr(switch, "exchange", lambda *_: False)
    for step in range(1, MOST_STEPS):
        name = f"old-{step}"
        write_model(store.root / name)
        with _sync_fails(monkeypatch, step) as failed:
            store.adopt(name)
        store.sweep()
        active = store.active(name)
        assert active is not None
        active.verify()
        if not failed:
            return
    pytest.fail("the adoption never came to its end")


def test_a_model_is_there_at_every_instant_of_its_adoption(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, seen = write_model(store.root / "tiny"), list[str]()
    real = exchange.exchange

    def look(one: Path, other: Path) -> bool:
        for _ in range(2):
            seen.append(model_manifest.read_manifest(folder).name)
            done = real(one, other)
            if not done:
                pytest.skip("this file system cannot exchange two names")
            seen.append(model_manifest.read_manifest(folder).name)
            if len(seen) == 2:
                real(one, other)  # back, and once more
        return done

    monkeypatch.setattr(switch, "exchange", look)
    monkeypatch.setattr(Path, "rename", lambda *_: pytest.fail("it takes more than one step"))
    version = store.adopt("tiny")
    assert version is not None
    assert seen == ["tiny"] * 4
    assert (folder.is_symlink(), folder.resolve()) == (True, version.folder)


def test_a_disk_that_is_full_at_any_step_leaves_what_was(
    store: ModelStore, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.activate(publish(b"one"))
    for step in range(1, MOST_STEPS):
        before = store.active("tiny")
        with _sync_fails(monkeypatch, step) as failed:
            publish_one(store, b"new%d" % step)
        after = assert_sound(store)
        assert failed or after != before
        if not failed:
            assert step > 5
            return
    pytest.fail("publishing never came to its end")


def test_rolling_back_on_a_full_disk_leaves_a_version_that_is_served(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content in (b"one", b"two"):
        publish_one(store, content)
    for step in range(1, MOST_STEPS):
        with _sync_fails(monkeypatch, step) as failed:
            store.rollback("tiny")
        assert_sound(store)
        if not failed:
            return
        store.activate(max(store.versions("tiny"), key=lambda version: version.folder.stat().st_mtime_ns))
    pytest.fail("the rollback never came to its end")


@contextmanager
def _sync_fails(monkeypatch: pytest.MonkeyPatch, step: int) -> Iterator[list[int]]:
    """Let the step-th write to the disk fail as on a full one; the list has an entry if it came to that."""
    left, failed = [step], list[int]()
    real: Callable[[int], None] = os.fsync

    def fsync(descriptor: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            failed.append(step)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        try:
            yield failed
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def test_a_pull_onto_a_disk_that_is_really_full_says_so_and_leaves_the_store_as_it_was(
    store: ModelStore, tmp_path: Path
) -> None:
    publish_one(store, b"one")
    folder = write_model(tmp_path / "large", content=b"\x08" + os.urandom(10_000))
    command = [sys.executable, "-m", "edge_runtime.models", "--models-dir", str(store.root), "--dev"]

    def no_file_above_a_few_kilobytes() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        [*command, "pull", f"file:{folder}"],
        preexec_fn=no_file_above_a_few_kilobytes,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert_sound(store)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_small_disk_refuses_what_does_not_fit_with_numbers(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        store = ModelStore(small / "models")
        publish_one(store, b"one")
        with pytest.raises(OSError, match="No space left"):
            publish_one(store, os.urandom(50_000))
        assert_sound(store)
        folder = write_model(tmp_path / "large", content=b"\x08" + os.urandom(50_000))
        command = [sys.executable, "-m", "edge_runtime.models", "--models-dir", str(store.root), "--dev"]
        done = subprocess.run([*command, "pull", f"file:{folder}"], capture_output=True, text=True, check=False)
        assert (done.returncode, "MiB free, and" in done.stderr) == (1, True)
        assert_sound(store)
    finally:
        subprocess.run(["umount", small], check=True)

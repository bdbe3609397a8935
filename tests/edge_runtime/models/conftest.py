from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from edge_runtime.models.keys import own_key
from edge_runtime.models.pulling import PullOptions, pull_model
from edge_runtime.models.store import ModelStore
from edge_runtime.models.version import Version
from runtime_server import model_manifest
from runtime_server.model_manifest import Manifest
from runtime_server.model_signature import sign
from serving.signatures import PrivateKey
from tests.support.model_host import ModelHost, model_host


def write_model(folder: Path, *, name: str = "tiny", content: bytes = b"weights") -> Path:
    """A folder that is complete, and whose files nobody could run."""
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(content * 64)
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    files = model_manifest.hash_folder(folder)
    manifest = Manifest(
        name=name,
        public_model=name,
        digest=model_manifest.digest_of(files),
        files=files,
        source={"made": "here"},
        format="onnx-genai",
        window=64,
        created_by={},
    )
    model_manifest.write_manifest(folder, manifest)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


Publish = Callable[..., Version]


@pytest.fixture
def publish(store: ModelStore, tmp_path: Path) -> Publish:
    """Publishes a signed version with the content that is given."""

    def publish_one(content: bytes, *, name: str = "tiny", signed: bool = True) -> Version:
        staged = write_model(tmp_path / "staged" / content.decode(), name=name, content=content)
        if signed:
            sign(staged, own_key(store.keys))
        return store.publish(staged)

    return publish_one


Pull = Callable[..., Version]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelHost]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with model_host() as found:
        yield found


@pytest.fixture
def pull(store: ModelStore, host: ModelHost) -> Pull:
    def pull_one(source: str, *, dev: bool = False, **options: object) -> Version:
        asked = replace(PullOptions(source.replace("HOST", host.url), hub=host.url), **options)  # type: ignore[arg-type]  # as the test names them
        return pull_model(ModelStore(store.root, dev=dev), asked, Console(file=io.StringIO()))

    return pull_one


def packaged(folder: Path, publisher: PrivateKey | None = None, *, content: bytes = b"weights") -> dict[str, bytes]:
    """The files of a model as its publisher packed it."""
    write_model(folder, content=b"\x08" + content)
    if publisher is not None:
        sign(folder, publisher)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def write_wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def nothing_is_visible(store: ModelStore) -> bool:
    return store.names() == [] and not (store.root / ".building").exists()

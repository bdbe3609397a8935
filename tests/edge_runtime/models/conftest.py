from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.models.keys import own_key
from edge_runtime.models.store import ModelStore
from edge_runtime.models.version import Version
from runtime_server import model_manifest
from runtime_server.model_manifest import Manifest
from runtime_server.model_signature import sign


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

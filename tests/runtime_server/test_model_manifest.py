from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime_server import model_manifest
from runtime_server.model_manifest import Manifest, ModelDamaged, ModelMissing


def complete(folder: Path) -> Manifest:
    (folder / "deep").mkdir(parents=True)
    (folder / "model.onnx.data").write_bytes(b"\x07" * 4096)
    (folder / "deep" / "tokenizer.json").write_text("{}", encoding="utf-8")
    files = model_manifest.hash_folder(folder)
    manifest = Manifest(
        name=folder.name,
        public_model="small",
        digest=model_manifest.digest_of(files),
        files=files,
        source={"how": "by hand"},
        format="onnx-genai",
        window=64,
        created_by={"tidegate": "0"},
    )
    model_manifest.write_manifest(folder, manifest)
    return manifest


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / model_manifest.FILE_NAME
    tree = json.loads(path.read_text(encoding="utf-8"))
    change(tree)
    path.write_text(json.dumps(tree), encoding="utf-8")


def test_a_written_manifest_is_read_back_and_its_folder_verifies(tmp_path: Path) -> None:
    written = complete(tmp_path / "m")
    assert model_manifest.read_manifest(tmp_path / "m") == written
    assert set(written.files) == {"model.onnx.data", "deep/tokenizer.json"}
    model_manifest.verify(tmp_path / "m", written)


def test_the_digest_follows_content_and_names_and_not_their_order(tmp_path: Path) -> None:
    files = complete(tmp_path / "m").files
    digest = model_manifest.digest_of(files)
    assert model_manifest.digest_of(dict(reversed(files.items()))) == digest
    renamed = {"other" if name == "model.onnx.data" else name: content for name, content in files.items()}
    assert model_manifest.digest_of(renamed) != digest


def test_weights_zeroed_at_the_same_size_are_found_and_named(tmp_path: Path) -> None:
    manifest = complete(tmp_path / "m")
    (tmp_path / "m" / "model.onnx.data").write_bytes(bytes(4096))
    model_manifest.check_sizes(tmp_path / "m", manifest)
    with pytest.raises(ModelDamaged, match=r"model\.onnx\.data"):
        model_manifest.verify(tmp_path / "m", manifest)


@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: path.write_text("{")])
def test_a_missing_or_truncated_file_is_found_without_reading(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    manifest = complete(tmp_path / "m")
    harm(tmp_path / "m" / "deep" / "tokenizer.json")
    with pytest.raises(ModelDamaged, match=r"tokenizer\.json"):
        model_manifest.check_sizes(tmp_path / "m", manifest)


def test_a_folder_without_a_manifest_is_no_model(tmp_path: Path) -> None:
    complete(tmp_path / "m")
    (tmp_path / "m" / model_manifest.FILE_NAME).unlink()
    with pytest.raises(ModelMissing):
        model_manifest.read_manifest(tmp_path / "m")
    with pytest.raises(ModelMissing):
        model_manifest.read_manifest(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "..\\outside", ""])
def test_a_manifest_that_points_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    complete(tmp_path / "m")
    rewrite(tmp_path / "m", lambda tree: tree["files"].update({name: tree["files"]["model.onnx.data"]}))
    with pytest.raises(ModelDamaged, match="inside"):
        model_manifest.read_manifest(tmp_path / "m")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda tree: tree.update(digest="0" * 64), "digest"),
        (lambda tree: tree.update(colour="blue"), "colour"),
        (lambda tree: tree.update(format="pickle"), "format"),
        (lambda tree: tree.update(window=0), "window"),
    ],
)
def test_a_manifest_with_a_wrong_field_is_refused_by_the_fields_name(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], named: str
) -> None:
    complete(tmp_path / "m")
    rewrite(tmp_path / "m", change)
    with pytest.raises(ModelDamaged, match=named):
        model_manifest.read_manifest(tmp_path / "m")


def test_a_manifest_that_is_not_json_is_refused(tmp_path: Path) -> None:
    complete(tmp_path / "m")
    (tmp_path / "m" / model_manifest.FILE_NAME).write_bytes(b"\xff{")
    with pytest.raises(ModelDamaged, match="JSON"):
        model_manifest.read_manifest(tmp_path / "m")

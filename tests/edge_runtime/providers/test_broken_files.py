"""Graphs that cannot be loaded: what is wrong with the file is said in words that help."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from edge_runtime.providers.cpu import open_on_cpu
from runtime_server.model_manifest import ModelUnsupported
from tests.support.small_graphs import write_perceptron


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a pointer of git-lfs"),
        (b"\n<!DOCTYPE html><html>", "a web page and not a graph"),
        (b"\x00garbage", "cannot be loaded"),
        (None, "the file cannot be read: No such file"),
    ],
)
def test_a_file_that_is_no_graph_says_what_it_is(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelUnsupported, match=says):
        open_on_cpu(path, 1)


@pytest.mark.parametrize("left", [None, 16])
def test_weights_that_are_missing_or_cut_short_are_named_as_the_cause(tmp_path: Path, left: int | None) -> None:
    path = tmp_path / "model.onnx"
    model = onnx.load(write_perceptron(path))
    onnx.save(model, path, save_as_external_data=True, location="weights.data", size_threshold=0)
    weights = tmp_path / "weights.data"
    if left is None:
        weights.unlink()
    else:
        weights.write_bytes(weights.read_bytes()[:left])
    with pytest.raises(ModelUnsupported, match="a file with its weights is missing or too short"):
        open_on_cpu(path, 1)

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.tensors.description import read_description
from runtime_server.model_manifest import ModelDamaged
from tests.support.tensor_folders import reciprocal, write_folder

pytestmark = pytest.mark.models


@pytest.mark.parametrize(
    "further",
    [{"batch_axes": {"x": -1}}, {"batch_axes": {"x": "rows"}}, {"states": ["x"]}, {"unknown": 1}],
)
def test_a_description_that_says_something_else_is_refused_with_its_place(tmp_path: Path, further: Any) -> None:
    folder = write_folder(tmp_path / "model", {"1": (reciprocal(), further)})
    with pytest.raises(ModelDamaged, match=r"tensors\.json cannot be read: versions\.1\."):
        read_description(folder)


def test_a_folder_without_a_description_is_no_model_of_tensors(tmp_path: Path) -> None:
    with pytest.raises(ModelDamaged, match=r"tensors\.json"):
        read_description(tmp_path)


def test_a_description_that_speaks_of_files_beyond_its_folder_starts_nothing(tmp_path: Path, edge_model: Path) -> None:
    (tmp_path / "secret.txt").write_text("not for callers", encoding="utf-8")
    folder = write_folder(tmp_path / "model", {"1": (reciprocal(), {"labels": "../secret.txt"})})
    command = [sys.executable, "-m", "edge_runtime", "--model-dir", str(edge_model), "--model-name", "m", "--port", "0"]
    ran = subprocess.run(
        [*command, "--tensor-model-dir", str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 2
    assert "speaks of ../secret.txt, which its manifest does not list" in ran.stderr

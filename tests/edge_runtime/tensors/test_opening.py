from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge_runtime.tensors.description import read_description
from runtime_server.model_manifest import ModelDamaged
from tests.support.tensor_folders import reciprocal, write_folder


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

"""Making models of tensors out of wheels: pinned, by name, or refused."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from edge_runtime.build.tensor_models import SOURCES
from edge_runtime.tensors.description import TensorDescription


def build(models: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0", "PIP_NO_INDEX": "1"}
    command = [sys.executable, "-m", "edge_runtime.build", "tensors", "--models-dir", str(models), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | pip, timeout=60, check=False)


def test_a_file_with_another_content_is_refused_and_nothing_becomes_visible(tmp_path: Path) -> None:
    wheel = tmp_path / "magika-1.0.3-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for member in SOURCES["magika"].members:
            archive.writestr(member.path, b"another graph")
    ran = build(tmp_path / "models", "--wheel", str(wheel), "magika")
    assert ran.returncode == 1
    assert SOURCES["magika"].members[0].sha256 in ran.stderr
    assert "Traceback" not in ran.stderr
    assert {path.name for path in (tmp_path / "models").iterdir()} <= {".lock"}


def test_an_unknown_name_and_a_missing_index_are_said_with_the_way_on(tmp_path: Path) -> None:
    unknown = build(tmp_path / "models", "no-such-model")
    assert unknown.returncode == 1
    assert "silero-vad" in unknown.stderr
    offline = build(tmp_path / "models", "silero-vad")
    assert offline.returncode == 1
    assert "--wheel" in offline.stderr


def test_every_description_is_one_and_speaks_of_files_that_come_along() -> None:
    for source in SOURCES.values():
        description = TensorDescription.model_validate(source.description)
        files = {member.name for member in source.members}
        assert {version.file for version in description.versions.values()} <= files
        assert source.license in {"MIT", "Apache-2.0"}

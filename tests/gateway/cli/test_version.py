"""`tidegate --version` says what is installed, and nothing else has to be there for that."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path


def test_the_version_is_that_of_the_distribution(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gateway.cli", "--version"]
    root = str(Path(__file__).parents[3])
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env={"PYTHONPATH": root})
    assert found.stdout == f"tidegate {importlib.metadata.version('tidegate')}\n"

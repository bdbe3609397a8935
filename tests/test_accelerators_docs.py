"""docs/accelerators.md: its tables are the adapters', its commands do what it says, its settings are settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from edge_runtime.providers.adapters import ADAPTERS
from edge_runtime.providers.page import options, overview
from gateway.settings import Settings
from inference_protocol.provider_policy import Work

TEXT = (Path(__file__).parent.parent / "docs" / "accelerators.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_tables_are_those_of_the_adapters() -> None:
    assert overview() in TEXT, "python -m edge_runtime.providers.page prints it"
    assert options() in TEXT, "python -m edge_runtime.providers.page prints it"


def test_the_settings_are_settings(tmp_path: Path) -> None:
    (found,) = blocks("yaml")
    policy = Settings(state_dir=tmp_path, **yaml.safe_load(found)).edge.providers
    assert policy.allowed(Work.TENSORS) == ("ggml", "cpu")
    assert policy.options == {"ggml": {"device": "cpu", "threads": "2"}}


@pytest.mark.models
@pytest.mark.timeout(300)
def test_the_commands_do_what_the_page_says_of_them(tmp_path: Path, models_dir: Path) -> None:
    (tmp_path / "models").symlink_to(models_dir)
    environment = {**os.environ, "TIDEGATE_STATE_DIR": str(tmp_path)}
    doctor, probe = (block.split() for block in blocks("sh"))
    tidegate = str(Path(sys.executable).with_name("tidegate"))

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        assert command[0] == "tidegate"
        argv = [tidegate, *command[1:]]
        return subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)

    before = {row["check"]: row for row in json.loads(run(doctor).stdout)["findings"]}
    assert {f"provider {adapter.name}" for adapter in ADAPTERS} <= before.keys()
    assert before["provider qnn"] == {
        "check": "provider qnn",
        "state": "ok",
        "says": "not installed",
        "fix": "pip install onnxruntime-qnn",
    }
    if "not installed" in before["provider ggml"]["says"]:
        pytest.skip("onnxruntime-ggml is not installed")
    assert "untested" in before["provider ggml"]["says"]
    probed = run(probe)
    assert probed.returncode == 1, probed.stderr
    assert re.search(r"0 of 60\b", probed.stdout)
    after = {row["check"]: row for row in json.loads(run(doctor).stdout)["findings"]}
    assert "it took none of the graph's 60 nodes" in after["provider ggml"]["says"]
    assert "all-minilm-l6-v2: 100% of the nodes" in after["provider cpu"]["says"]

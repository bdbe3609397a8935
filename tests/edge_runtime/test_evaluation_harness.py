"""lm-evaluation-harness's `local-completions` against a real runtime, on a task of a few lines."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.edge_runtime.serving_process import MODEL, edge_process

pytestmark = pytest.mark.models

CHOOSING = """
task: capitals
dataset_path: json
dataset_kwargs: {{data_files: {data}}}
test_split: train
output_type: multiple_choice
doc_to_text: "The capital of {{{{country}}}} is"
doc_to_choice: ["Paris", "Rome", "Madrid"]
doc_to_target: "{{{{answer}}}}"
metric_list: [{{metric: acc}}]
"""
GENERATING = """
task: counting
dataset_path: json
dataset_kwargs: {{data_files: {data}}}
test_split: train
output_type: generate_until
doc_to_text: "1, 2, 3, 4, 5,"
doc_to_target: "6"
generation_kwargs: {{until: [","], max_gen_toks: 8, temperature: 0}}
metric_list: [{{metric: exact_match}}]
"""
ROWS = [{"country": "France", "answer": 0}, {"country": "Italy", "answer": 1}, {"country": "Spain", "answer": 2}]


@pytest.mark.timeout(600)
def test_the_harness_scores_choices_and_generates(edge_model: Path, cloud_model: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("lm_eval") is None:
        pytest.skip("lm-evaluation-harness is not installed: pip install 'tidegate[evaluate]'")
    data = tmp_path / "rows.json"
    data.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    for name, task in (("capitals", CHOOSING), ("counting", GENERATING)):
        (tasks / f"{name}.yaml").write_text(task.format(data=data), encoding="utf-8")
    with edge_process(edge_model, "--context", "512") as client:
        address = str(client.base_url).rstrip("/")
        # The tokenizer is the same in both folders; transformers reads it only where a `config.json` stands beside it.
        options = f"model={MODEL},base_url={address}/v1/completions,tokenizer={cloud_model},num_concurrent=2"
        command = ["-m", "lm_eval", "--model", "local-completions", "--model_args", options]
        command += [
            "--tasks",
            "capitals,counting",
            "--include_path",
            str(tasks),
            "--output_path",
            str(tmp_path / "out"),
        ]
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
        done = subprocess.run(
            [sys.executable, *command], env={**os.environ, **offline}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr[-2000:]
    [results] = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(results.read_text(encoding="utf-8"))["results"]
    assert found["capitals"]["acc,none"] == 1.0
    assert "exact_match,none" in found["counting"]

"""The edge runtime as a process: what it tells of its providers, and what becomes of requests when one dies."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from edge_runtime.providers.sessions import CPU_PROVIDER
from tests.edge_runtime.serving_process import edge_process
from tests.support.faulty_provider import PROVIDER
from tests.support.tensor_folders import reciprocal, write_folder

pytestmark = [pytest.mark.models, pytest.mark.timeout(200)]
SERVER = Path(__file__).parents[2] / "support" / "edge_with_stand_in.py"
MODEL = "all-minilm-l6-v2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("providers")


@pytest.fixture(scope="module")
def edge(models_dir: Path, folder: Path) -> Iterator[httpx.Client]:
    stand_in = {"fault": "crashes", "armed": str(folder / "armed"), "at": "10"}
    policy = {
        "allow": ["cpu", "stand-in", "qnn"],
        "prefer": {"embeddings": ["qnn", "stand-in"]},
        "options": {"stand-in": stand_in},
    }
    options = ["--providers", json.dumps(policy), "--provider-file", str(folder / "providers.json")]
    options += ["--embedding-model-dir", str(models_dir / MODEL), "--trace-dir", str(folder / "traces")]
    with edge_process(models_dir / "smollm2-135m-instruct-q4_1", *options, program=(str(SERVER),)) as client:
        yield client


def embed(client: httpx.Client) -> httpx.Response:
    answer = client.post("/v1/embeddings", json={"model": MODEL, "input": "The tide turns at noon."})
    assert answer.status_code == 200, answer.text
    return answer


def use(client: httpx.Client) -> dict[str, Any]:
    (found,) = client.get("/internal/state").json()["providers"]
    return dict(found)


def test_the_tenth_request_is_answered_by_the_cpu_and_everything_says_so(edge: httpx.Client, folder: Path) -> None:
    first = embed(edge)
    assert first.headers["x-tidegate-provider"] == CPU_PROVIDER  # nobody waits for a probe
    deadline = time.monotonic() + 60
    while use(edge)["provider"] != PROVIDER:
        assert time.monotonic() < deadline, use(edge)
        time.sleep(0.05)
    assert use(edge)["passed_over"] == {"qnn": "not installed: pip install onnxruntime-qnn"}
    (folder / "armed").touch()
    answers = [embed(edge) for _ in range(12)]
    told = [answer.headers["x-tidegate-provider"] for answer in answers]
    assert told == [PROVIDER] * 9 + [f"{CPU_PROVIDER}; instead-of=stand-in"] + [CPU_PROVIDER] * 2
    vectors = [answer.json()["data"][0]["embedding"] for answer in (first, *answers)]
    assert all(max(abs(a - b) for a, b in zip(vectors[0], each, strict=True)) < 1e-5 for each in vectors)
    assert (use(edge)["provider"], use(edge)["work"]) == (CPU_PROVIDER, "embeddings")
    assert "in quarantine" in use(edge)["passed_over"]["stand-in"]
    assert "SIGSEGV" in use(edge)["passed_over"]["stand-in"]


def test_the_span_of_that_request_names_both(edge: httpx.Client, folder: Path) -> None:
    def stand_ins() -> list[str]:
        lines = [line for path in folder.glob("traces/*.jsonl") for line in path.read_text().splitlines()]
        return [line for line in lines if "tidegate.execution_provider.instead_of" in line]

    deadline = time.monotonic() + 30
    while not stand_ins():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (line,) = stand_ins()
    assert f'"stringValue":"{CPU_PROVIDER}"' in line.replace(": ", ":")


def test_a_provider_that_dies_in_the_tenth_request_for_tensors_is_noticed_by_no_caller(
    edge_model: Path, tmp_path: Path
) -> None:
    model = write_folder(tmp_path / "reciprocal", {"1": (reciprocal(), {"batch_axes": {"x": 0, "y": 0}})})
    stand_in = {"fault": "crashes", "armed": str(tmp_path / "armed"), "at": "10"}
    policy = {
        "allow": ["cpu", "stand-in"],
        "prefer": {"tensors": ["stand-in"]},
        "options": {"stand-in": stand_in},
    }
    options = ["--providers", json.dumps(policy), "--provider-file", str(tmp_path / "providers.json")]
    options += ["--tensor-model-dir", str(model), "--slots", "1"]
    with edge_process(edge_model, *options, program=(str(SERVER),)) as client:

        def turned(value: float) -> tuple[str, list[float]]:
            row = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [value, 1 / value]}
            answer = client.post("/v2/models/reciprocal/infer", json={"inputs": [row]})
            assert answer.status_code == 200, answer.text
            return answer.headers["x-tidegate-provider"], answer.json()["outputs"][0]["data"]

        assert turned(1)[0] == CPU_PROVIDER  # nobody waits for a probe
        deadline = time.monotonic() + 30
        while use(client)["provider"] != PROVIDER:
            assert time.monotonic() < deadline, use(client)
            time.sleep(0.05)
        (tmp_path / "armed").touch()
        told = [turned(2.0**power) for power in range(12)]
    assert [values for _, values in told] == [[0.5**power, 2.0**power] for power in range(12)]
    assert [name for name, _ in told] == [PROVIDER] * 9 + [f"{CPU_PROVIDER}; instead-of=stand-in"] + [CPU_PROVIDER] * 2


def test_an_answer_in_text_says_what_computed_it_too(edge: httpx.Client) -> None:
    body = {"model": "smollm2", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    for stream in (False, True):
        answer = edge.post("/v1/chat/completions", json={**body, "stream": stream})
        assert answer.headers["x-tidegate-provider"] == CPU_PROVIDER


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ({"allow": ["tpu"]}, "there is no provider `tpu`"),
        ({"prefer": {"generation": ["ggml"]}}, "prefer: Value error, generation runs on the CPU alone"),
        ({"allow": "cpu"}, "allow: Input should be a valid array"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_its_field(policy: dict[str, Any], says: str) -> None:
    argv = [sys.executable, "-m", "edge_runtime", "--model-dir", "none", "--model-name", "m", "--port", "0"]
    ended = subprocess.run(
        [*argv, "--providers", json.dumps(policy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert says in ended.stderr

"""`tidegate bench` and `tidegate models fit`, as a person and as a program read them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType

from edge_runtime.build.gguf.folder import write_folder
from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.measuring.device_profile import DeviceProfile
from edge_runtime.measuring.fit import fits
from edge_runtime.measuring.known_models import KNOWN_MODELS, MIXTURES
from inference_protocol.runtime_state import RuntimeState, RuntimeStatus, ServedModel
from runtime_server import model_manifest
from tests.support.gguf_files import make_contents

MB = 1_000_000


def run(state_dir: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli", *arguments],
        env=os.environ | {"TIDEGATE_STATE_DIR": str(state_dir)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    write_folder(make_contents(kind=GGMLQuantizationType.Q8_0).write(tmp_path / "tiny.gguf"), folder)
    files = model_manifest.hash_folder(folder)
    manifest = model_manifest.Manifest(
        name="tiny",
        public_model="tiny",
        digest=model_manifest.digest_of(files),
        files=files,
        source={},
        format="onnx-genai",
        window=128,
        created_by={},
    )
    model_manifest.write_manifest(folder, manifest)
    return folder


def test_bench_tells_a_models_speed_beside_the_ceiling_and_keeps_it(tiny: Path, tmp_path: Path) -> None:
    status, out, err = run(tmp_path, "bench", "tiny", "--json")
    assert status == 0, err
    assert "Measuring how fast memory is read" in err, "progress goes to standard error"
    found = json.loads(out)
    assert set(found["ms_per_step"]) == {"1", "2", "4", "8"}
    bytes_per_token = read_genai_config(tiny).decoder.bytes_per_token
    assert found["mb_per_token"] == pytest.approx(bytes_per_token / MB, abs=0.05)
    ceiling = found["memory_gb_per_s"] * 1e9 / bytes_per_token
    assert found["ceiling_tokens_per_s"] == pytest.approx(ceiling, rel=0.02)
    assert found["share_of_ceiling"] == pytest.approx(found["tokens_per_s"] / ceiling, rel=0.03, abs=0.002)
    assert found["prefill_tokens_per_s"] > 0
    kept = DeviceProfile(tmp_path / "device.json", now=lambda: 0.0).read()
    assert kept.bytes_per_s == pytest.approx(found["memory_gb_per_s"] * 1e9, rel=0.01)
    speed = kept.models[model_manifest.read_manifest(tiny).digest]
    assert speed.tokens_per_s is not None
    assert speed.ms_per_token[1] == pytest.approx(found["ms_per_step"]["1"], abs=0.01)


def test_bench_of_what_is_no_model_says_so(tmp_path: Path) -> None:
    status, _, err = run(tmp_path, "bench", "nothing")
    assert (status, "nothing" in err) == (1, True)


def test_fit_prints_a_table_and_json_of_the_same(tmp_path: Path) -> None:
    DeviceProfile(tmp_path / "device.json", now=lambda: 0.0).record_bandwidth(20e9)
    status, out, err = run(tmp_path, "models", "fit", "--memory-gb", "4", "--json")
    assert status == 0, err
    found = json.loads(out)
    assert (found["memory_gb_per_s"], found["available_mb"]) == (20.0, 4000)
    assert {row["model"] for row in found["models"]} == {model.name for model in KNOWN_MODELS}
    status, table, _ = run(tmp_path, "models", "fit", "--memory-gb", "4")
    assert status == 0
    assert "does not fit" in table
    assert table.count("\n") >= len(found["models"])


def test_more_memory_fits_more_slots_and_more_bandwidth_is_faster() -> None:
    def slots(memory_gb: float) -> dict[tuple[str, str], int]:
        return {(row.model, row.blocks): row.slots for row in fits(int(memory_gb * 1e9), 20e9, 0.5, 2048)}

    small, large = slots(2), slots(16)
    assert all(large[key] >= small[key] for key in small)
    assert (small["Llama-3.1-8B", "Q8_0"], large["SmolLM2-135M", "Q8_0"]) == (0, 64)
    slow, fast = (fits(1 << 34, speed, 0.5, 2048)[0].tokens_per_s for speed in (10e9, 20e9))
    assert fast == pytest.approx(2 * slow)


@pytest.mark.parametrize(
    ("name", "blocks", "file_mb"),
    [
        # What the published files weigh; they hold the vocabulary and some matrices in other types besides.
        ("SmolLM2-135M", "Q8_0", 145),
        ("Qwen2.5-0.5B", "Q8_0", 531),
        ("Qwen2.5-1.5B", "Q4_K_M", 986),
        ("Llama-3.2-1B", "Q8_0", 1321),
        ("Llama-3.1-8B", "Q4_K_M", 4921),
        ("Mistral-7B-v0.3", "Q4_K_M", 4373),
    ],
)
def test_sizes_of_known_models_are_those_of_their_files(name: str, blocks: str, file_mb: int) -> None:
    model = next(each for each in KNOWN_MODELS if each.name == name)
    file, graph, read = model.sizes(dict(MIXTURES)[blocks])
    assert file / MB == pytest.approx(file_mb, rel=0.03)
    assert read <= graph


@pytest.mark.models
def test_what_the_default_model_reads_for_a_token_is_nearly_all_of_its_weights(edge_model: Path) -> None:
    read = read_genai_config(edge_model).decoder.bytes_per_token
    size = (edge_model / "model.onnx.data").stat().st_size
    assert read is not None
    assert 0.9 * size < read < size


def test_a_profile_keeps_several_models_and_survives_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "device.json"
    profile = DeviceProfile(path, now=lambda: 7.9)
    assert profile.read().models == {}

    def state(digest: str, ms: float) -> RuntimeState:
        served = ServedModel(id="m", digest=digest, window=8)
        return RuntimeState(status=RuntimeStatus.READY, models=(served,), ms_per_token={1: ms}, slots=3)

    profile.record_model(state("a", 5.0))
    profile.record_model(state("b", 10.0))
    profile.record_model(state("a", 4.0))
    profile.record_bandwidth(1e9)
    found = DeviceProfile(path, now=lambda: 0.0).read()
    assert {digest: speed.tokens_per_s for digest, speed in found.models.items()} == {"a": 250.0, "b": 100.0}
    assert (found.models["a"].measured_at, found.models["a"].slots, found.bytes_per_s) == (7, 3, 1e9)
    path.write_text("scrambled", encoding="utf-8")
    assert profile.read().models == {}
    profile.record_model(state("c", 1.0))
    assert list(profile.read().models) == ["c"]

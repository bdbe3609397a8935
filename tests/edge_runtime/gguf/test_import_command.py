"""`tidegate models import` as a person meets it: a file becomes a model that the edge can serve."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from tokenizers import Tokenizer, normalizers

from edge_runtime.build import gate
from edge_runtime.build.errors import GateFailed
from edge_runtime.build.gguf.folder import write_folder
from edge_runtime.generation.engine import SlotEngine
from edge_runtime.generation.loading import EngineSettings
from edge_runtime.models.keys import distrust
from edge_runtime.models.store import ModelStore
from inference_protocol.sampling import Sampling
from runtime_server import model_manifest
from runtime_server.engine import GenerationJob
from runtime_server.model_manifest import GateFigures
from tests.support.gguf_files import make_contents

PATIENCE_S = 60.0
FIGURES = GateFigures(
    tokens=100,
    mean_kl=0.001,
    top1_agreement=0.99,
    perplexity=10.0,
    perplexity_exact=10.0,
    greedy_agreement=1.0,
    tokenizer_round_trip=True,
)


def run_import(state_dir: Path, *arguments: object) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli", "models", "import", *map(str, arguments)],
        env=os.environ | {"TIDEGATE_STATE_DIR": str(state_dir)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


async def test_a_file_becomes_a_model_that_answers(tmp_path: Path) -> None:
    file = make_contents(kind=GGMLQuantizationType.F32).write(tmp_path / "Tiny Model-F32.gguf")
    status, said = run_import(tmp_path, file)
    assert status == 0, said
    folder = tmp_path / "models" / "tiny-model-f32"
    manifest = model_manifest.read_manifest(folder)
    model_manifest.verify(folder, manifest)
    assert (manifest.name, manifest.public_model, manifest.format) == (folder.name, folder.name, "onnx-genai")
    assert manifest.source["gguf_sha256"] == model_manifest.hash_file(file).sha256
    assert manifest.gate is not None
    assert (manifest.gate.tokens, manifest.gate.top1_agreement, manifest.gate.forced) == (127, 1.0, False)
    engine = SlotEngine(EngineSettings(folder, "tiny", slots=2, context=64))
    await engine.start()
    generation = engine.submit(GenerationJob("r", (72, 5, 9), 4, Sampling(temperature=0.0), frozenset()))
    assert len([token async for event in generation for token in event.tokens]) == 4
    await engine.stop()

    assert run_import(tmp_path, file)[1].count("imported already") == 1
    other = make_contents(kind=GGMLQuantizationType.F32, seed=2).write(tmp_path / "other.gguf")
    status, said = run_import(tmp_path, other, "--name", folder.name)
    assert (status, "models rollback tiny-model-f32" in said) == (0, True)
    store = ModelStore(folder.parent)
    assert [version.active for version in store.versions(folder.name)] == [False, True]
    assert store.rollback(folder.name).manifest() == manifest


def test_a_refused_file_leaves_nothing_behind(tmp_path: Path) -> None:
    made = make_contents()
    del made.tensors["blk.1.ffn_down.weight"]
    status, said = run_import(tmp_path, made.write(tmp_path / "half.gguf"))
    assert (status, "`blk.1.ffn_down.weight`" in said) == (1, True)
    assert [path.name for path in (tmp_path / "models").iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["../up", "A", "", "-x"])
def test_a_name_that_is_no_folders_is_refused(tmp_path: Path, name: str) -> None:
    file = make_contents().write(tmp_path / "model.gguf")
    status, said = run_import(tmp_path, file, f"--name={name}")
    assert (status, "cannot be a model's name" in said) == (1, True), said


def test_a_model_that_answers_too_differently_is_let_in_by_force_only_and_the_manifest_says_so(tmp_path: Path) -> None:
    made = make_contents(kind=GGMLQuantizationType.Q4_0)  # noise has near-ties everywhere, which rounding turns
    for kind, data, _ in made.tensors.values():
        if kind is GGMLQuantizationType.F32:
            np.multiply(data, 8, out=data)
    file = made.write(tmp_path / "noise.gguf")
    status, said = run_import(tmp_path, file)
    assert (status, "--force" in said) == (1, True), said
    assert not (tmp_path / "models" / "noise").exists()
    status, said = run_import(tmp_path, file, "--force")
    assert status == 0, said
    gate_figures = model_manifest.read_manifest(tmp_path / "models" / "noise").gate
    assert gate_figures is not None
    assert gate_figures.forced


def test_a_tokenizer_that_drops_what_it_reads_is_measured_as_such(tmp_path: Path) -> None:
    write_folder(make_contents().write(tmp_path / "model.gguf"), tmp_path)
    assert gate.measure(tmp_path).tokenizer_round_trip
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert not gate.measure(tmp_path).tokenizer_round_trip


def test_every_figure_has_its_threshold() -> None:
    gate.require(FIGURES)
    for change, named in (
        ({"mean_kl": 0.03}, "KL"),
        ({"top1_agreement": 0.94}, "top-1"),
        ({"perplexity": 10.6}, "perplexity"),
        ({"mean_kl": float("nan")}, "KL"),
        ({"greedy_agreement": 0.0}, "greedy"),
        ({"tokenizer_round_trip": False}, "tokenizer"),
    ):
        with pytest.raises(GateFailed, match=named):
            gate.require(FIGURES.model_copy(update=change))


def test_an_import_mends_what_was_damaged_of_it_and_a_key_that_is_gone(tmp_path: Path) -> None:
    file = make_contents(kind=GGMLQuantizationType.F32).write(tmp_path / "tiny.gguf")
    assert run_import(tmp_path, file)[0] == 0
    store = ModelStore(tmp_path / "models")
    version = store.active("tiny")
    data = version.folder / "model.onnx.data"
    data.write_bytes(bytes(data.stat().st_size))
    distrust(store.keys, "this-box")
    status, said = run_import(tmp_path, file)
    assert (status, "it is made again" in said) == (0, True), said
    assert store.active("tiny") == version
    version.verify()
    assert store.vouchers(version) == ["this-box"]
    status, said = run_import(tmp_path, file)
    assert (status, "imported already" in said) == (0, True)


def test_a_model_that_nobody_could_talk_to_is_not_imported(tmp_path: Path) -> None:
    made = make_contents()
    made.keys["tokenizer.chat_template"] = "{% for m in %}"
    status, said = run_import(tmp_path, made.write(tmp_path / "tiny.gguf"))
    assert (status, "chat template, line 1" in said) == (1, True), said
    assert ModelStore(tmp_path / "models").names() == []

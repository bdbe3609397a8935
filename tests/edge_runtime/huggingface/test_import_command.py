"""`tidegate models import DIR` as a person meets it: a Hugging Face folder becomes a model that the edge can serve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType

from edge_runtime.generation.engine import SlotEngine
from edge_runtime.generation.loading import EngineSettings
from inference_protocol.sampling import Sampling
from runtime_server import model_manifest
from runtime_server.engine import GenerationJob
from tests.edge_runtime.gguf.test_import_command import run_import
from tests.support.gguf_files import make_contents
from tests.support.huggingface_files import tensors_of, write_adapter, write_model


async def answers(folder: Path) -> int:
    engine = SlotEngine(EngineSettings(folder, "tiny", slots=2, context=64))
    await engine.start()
    generation = engine.submit(GenerationJob("r", (72, 5, 9), 4, Sampling(temperature=0.0), frozenset()))
    tokens = [token async for event in generation for token in event.tokens]
    await engine.stop()
    return len(tokens)


async def test_a_folder_with_its_adapter_becomes_a_model_that_answers(tmp_path: Path) -> None:
    made = make_contents(kind=GGMLQuantizationType.F32)
    source = write_model(tmp_path / "Tiny-Chat", made, tensors_of(made), kind="BF16")
    random = np.random.default_rng(3)
    products = [random.standard_normal(shape).astype(np.float32) * 0.01 for shape in ((4, 256), (128, 4))]
    adapter = write_adapter(tmp_path / "manners", {"model.layers.0.self_attn.v_proj": tuple(products)})
    status, said = run_import(tmp_path, source, "--lora", adapter, "--precision", "fp16")
    assert status == 0, said
    folder = tmp_path / "models" / "tiny-chat"
    manifest = model_manifest.read_manifest(folder)
    model_manifest.verify(folder, manifest)
    assert manifest.source["adapter"] == "manners"
    assert manifest.source["how"].startswith("fp16")
    assert manifest.gate is not None
    assert manifest.gate.mean_kl < 1e-4
    assert not (tmp_path / "models" / ".building").exists()
    assert await answers(folder) == 4

    assert "imported already" in run_import(tmp_path, source, "--lora", adapter, "--precision", "fp16")[1]
    status, said = run_import(tmp_path, source, "--precision", "fp16")  # without the adapter it is another version
    assert (status, "models rollback tiny-chat" in said) == (0, True)
    assert "adapter" not in model_manifest.read_manifest(folder).source


def test_what_quantizing_costs_is_measured_against_float32_and_refused_beyond_the_gate(tmp_path: Path) -> None:
    made = make_contents(kind=GGMLQuantizationType.F32)
    tensors = {name: values * (8 if values.ndim == 1 else 1) for name, values in tensors_of(made).items()}
    source = write_model(tmp_path / "noise", made, tensors)  # noise has near-ties everywhere, which rounding turns
    status, said = run_import(tmp_path, source, "--precision", "int4")
    assert (status, "--force" in said) == (1, True), said
    assert [path.name for path in (tmp_path / "models").iterdir()] == [".lock"]
    status, said = run_import(tmp_path, source, "--precision", "int4", "--force")
    assert status == 0, said
    figures = model_manifest.read_manifest(tmp_path / "models" / "noise").gate
    assert figures is not None
    assert figures.forced
    assert figures.mean_kl > 0.02


def test_options_of_a_folder_are_refused_for_a_file(tmp_path: Path) -> None:
    file = make_contents().write(tmp_path / "model.gguf")
    status, said = run_import(tmp_path, file, "--precision", "int8")
    assert (status, "--precision" in said) == (1, True)

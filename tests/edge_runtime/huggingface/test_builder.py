"""A family without a graph of ours, through onnxruntime-genai's model builder, beside what transformers computes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.huggingface.builder import build_folder
from edge_runtime.build.huggingface.tensors import Precision
from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from runtime_server import model_manifest
from tests.edge_runtime.gguf.test_import_command import run_import
from tests.support.gguf_files import make_contents
from tests.support.huggingface_files import tensors_of, write_model

TOKENS = [72, 5, 255, 9, 13, 100]


@pytest.fixture
def phi(tmp_path: Path) -> Path:
    """A small random Phi-3, whose projections are fused and whose family the importer has no graph for."""
    import torch
    from transformers import Phi3Config, Phi3ForCausalLM

    made = make_contents(kind=GGMLQuantizationType.F32)
    talk = write_model(tmp_path / "talk", made, tensors_of(made))
    torch.manual_seed(1)
    end = int(made.keys["tokenizer.ggml.eos_token_id"])  # type: ignore[call-overload]  # keys hold anything
    config = Phi3Config(
        vocab_size=len(tensors_of(made)["model.embed_tokens.weight"]),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        original_max_position_embeddings=128,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
    )
    folder = tmp_path / "tiny-phi"
    Phi3ForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(talk / name, folder / name)
    return folder


def test_another_family_is_built_measured_and_served(phi: Path, tmp_path: Path) -> None:
    import torch
    from transformers import Phi3ForCausalLM

    status, said = run_import(tmp_path, phi, "--precision", "int8", "--force")
    assert status == 0, said
    folder = tmp_path / "models" / "tiny-phi"
    manifest = model_manifest.read_manifest(folder)
    assert "model builder" in manifest.source["how"]
    assert {"onnxruntime-genai", "torch"} <= set(manifest.created_by)
    assert manifest.gate is not None
    assert manifest.gate.mean_kl < 0.05
    config = read_genai_config(folder)
    assert config.decoder.bytes_per_token is not None
    graph = DecoderGraph(folder, config, slots=2, window=64, threads=1)
    model = Phi3ForCausalLM.from_pretrained(phi, dtype=torch.float32, local_files_only=True)
    with torch.inference_mode():
        expected = model(torch.tensor([TOKENS])).logits[0, -1].numpy()
    found = graph.prefill(0, TOKENS, 0)
    assert np.corrcoef(found, expected)[0, 1] > 0.99


def test_a_precision_that_the_builder_has_for_gpus_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotImportable, match="int8"):
        build_folder(tmp_path, Precision.FP16, tmp_path, cache=tmp_path, lock=0)


def test_what_the_builder_cannot_read_is_refused_with_its_reason(tmp_path: Path) -> None:
    made = make_contents(kind=GGMLQuantizationType.F32)
    source = write_model(tmp_path / "odd", made, tensors_of(made), model_type="no-such-family")
    status, said = run_import(tmp_path, source)
    assert (status, "The model builder failed" in said) == (1, True), said
    assert [path.name for path in (tmp_path / "models").iterdir()] == [".lock"]

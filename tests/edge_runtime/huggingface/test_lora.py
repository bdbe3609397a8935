"""Merging an adapter is peft's own formula: `W + (alpha / r) · B · A`, computed here by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.huggingface.config import read_config
from edge_runtime.build.huggingface.folder import write_folder
from edge_runtime.build.huggingface.lora import Adapter
from edge_runtime.build.huggingface.merging import write_merged
from edge_runtime.build.huggingface.safetensors_folder import SafetensorsFolder
from edge_runtime.build.huggingface.tensors import Precision
from tests.support.gguf_files import load, make_contents
from tests.support.huggingface_files import tensors_of, write_adapter, write_model

RANK = 4
MODULE = "model.layers.1.self_attn.v_proj"


def product(outputs: int = 128, inputs: int = 256) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    return tuple(random.standard_normal(shape).astype(np.float32) for shape in ((RANK, inputs), (outputs, RANK)))


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({"lora_alpha": 8}, 2.0),
        ({"lora_alpha": 8, "use_rslora": True}, 4.0),
        ({"lora_alpha": 1}, 0.25),
        ({"lora_alpha": 0.5}, 0.125),
    ],
)
def test_the_product_is_added_with_its_scale(tmp_path: Path, config: dict, scale: float) -> None:
    down, up = product()
    adapter = Adapter(write_adapter(tmp_path / "adapter", {MODULE: (down, up)}, **config))
    weight = np.random.default_rng(6).standard_normal((128, 256)).astype(np.float32)
    merged = adapter.merge(f"{MODULE}.weight", weight)
    assert merged.dtype == np.float32
    by_hand = weight.astype(np.float64) + scale * (up.astype(np.float64) @ down.astype(np.float64))
    np.testing.assert_allclose(merged, by_hand, rtol=0, atol=4e-6 * np.abs(by_hand).max())
    untouched = "model.layers.0.self_attn.v_proj.weight"
    assert adapter.merge(untouched, weight) is weight
    adapter.require_used()


def test_a_model_with_an_adapter_is_the_model_with_the_merged_weight(tmp_path: Path) -> None:
    made = make_contents(kind=GGMLQuantizationType.F32)
    tensors = tensors_of(made)
    source = write_model(tmp_path / "model", made, tensors)
    down, up = product()
    adapter = write_adapter(tmp_path / "adapter", {MODULE: (down, up)})
    changed = tensors | {f"{MODULE}.weight": tensors[f"{MODULE}.weight"] + 2 * (up @ down)}
    by_hand = write_model(tmp_path / "by-hand", made, changed)
    logits = []
    for name, folder, merged in (("one", source, adapter), ("two", by_hand, None), ("plain", source, None)):
        out = tmp_path / name
        out.mkdir()
        write_folder(folder, read_config(folder), merged, Precision.FP32, out)
        logits.append(load(out).prefill(0, [72, 5, 9, 101], 0))
    np.testing.assert_allclose(logits[0], logits[1], rtol=0, atol=1e-5 * np.ptp(logits[1]))
    assert np.abs(logits[0] - logits[2]).max() > 0.01 * np.ptp(logits[2])

    copy = tmp_path / "copy"
    copy.mkdir()
    write_merged(source, adapter, copy)
    files = SafetensorsFolder(copy)
    for name, values in changed.items():
        np.testing.assert_allclose(files.tensor(name, *values.shape), values, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"use_dora": True}, "`use_dora`"),
        ({"peft_type": "IA3"}, "`peft_type`"),
        ({"bias": "all"}, "`bias`"),
        ({"modules_to_save": ["lm_head"]}, "`modules_to_save`"),
        ({"rank_pattern": {"q_proj": 8}}, "`rank_pattern`"),
        ({"r": 0}, "`r`"),
        ({"lora_alpha": "much"}, "`lora_alpha`"),
    ],
)
def test_what_is_no_plain_adapter_is_refused_by_its_key(tmp_path: Path, config: dict, named: str) -> None:
    with pytest.raises(NotImportable, match=named):
        Adapter(write_adapter(tmp_path / "adapter", {MODULE: product()}, **config))


def test_a_module_that_the_model_does_not_have_is_refused_by_its_name(tmp_path: Path) -> None:
    made = make_contents(kind=GGMLQuantizationType.F32)
    source = write_model(tmp_path / "model", made, tensors_of(made))
    adapter = write_adapter(tmp_path / "adapter", {"model.layers.9.self_attn.v_proj": product()})
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(NotImportable, match=r"model\.layers\.9\.self_attn\.v_proj"):
        write_folder(source, read_config(source), adapter, Precision.INT8, out)


def test_matrices_of_another_shape_are_refused_by_their_name(tmp_path: Path) -> None:
    adapter = Adapter(write_adapter(tmp_path / "adapter", {MODULE: product(outputs=64)}))
    with pytest.raises(NotImportable, match=r"lora_B.*\[64, 4\].*\[128, 4\]"):
        adapter.merge(f"{MODULE}.weight", np.zeros((128, 256), np.float32))

"""What a folder cannot be imported with is named: a file, a key or a tensor."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.huggingface.config import read_config
from edge_runtime.build.huggingface.folder import write_folder
from edge_runtime.build.huggingface.safetensors_folder import SafetensorsFolder
from edge_runtime.build.huggingface.tensors import Precision
from tests.support.gguf_files import make_contents
from tests.support.huggingface_files import tensors_of, write_model, write_safetensors


@pytest.fixture
def refusal(tmp_path: Path):
    """Return what an import of a folder says, once `change` was done to it."""

    def say(change=lambda folder: None, *, tensors=lambda held: held, precision=Precision.FP32, **config) -> str:
        made = make_contents(kind=GGMLQuantizationType.F32)
        folder = write_model(tmp_path / "model", made, tensors(tensors_of(made)), **config)
        change(folder)
        out = tmp_path / "out"
        out.mkdir()
        with pytest.raises(NotImportable) as refused:
            write_folder(folder, read_config(folder), None, precision, out)
        return str(refused.value)

    return say


def without(name: str):
    return lambda held: {key: value for key, value in held.items() if key != name}


def test_pickled_weights_are_refused(refusal) -> None:
    def pickle(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")

    said = refusal(pickle)
    assert "pytorch_model.bin" in said
    assert "runs the code in it" in said


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "cut short"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
        (None, "cut short"),
    ],
)
def test_a_file_that_is_none_is_called_what_it_is(refusal, content: bytes | None, named: str) -> None:
    def damage(folder: Path) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-100] if content is None else content)

    assert named in refusal(damage)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "`quantization_config`"),
        ({"hidden_act": "gelu"}, "`hidden_act`"),
        ({"attention_multiplier": 0.5}, "`attention_multiplier`"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "`yarn`"),
        ({"rope_scaling": {"type": "linear"}}, "`linear`"),
        ({"hidden_size": None}, "`hidden_size`"),
        ({"num_hidden_layers": "many"}, "`num_hidden_layers`"),
        ({"partial_rotary_factor": 0.5}, "`partial_rotary_factor`"),
    ],
)
def test_a_key_that_changes_the_model_is_named(refusal, config: dict, named: str) -> None:
    assert named in refusal(**config)


def test_a_tensor_that_is_missing_is_named(refusal) -> None:
    name = "model.layers.1.mlp.down_proj.weight"
    assert f"`{name}`" in refusal(tensors=without(name))


def test_a_tensor_without_a_place_is_named(refusal) -> None:
    extra = {"model.layers.0.self_attn.sinks": np.zeros(4, np.float32)}
    assert "`model.layers.0.self_attn.sinks`" in refusal(tensors=lambda held: held | extra)


def test_a_tensor_of_another_shape_is_named_with_both(refusal) -> None:
    wrong = {"model.norm.weight": np.zeros(4, np.float32)}
    said = refusal(tensors=lambda held: held | wrong)
    assert "`model.norm.weight` is [4] where [256]" in said


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "name", ["model.layers.0.mlp.up_proj.weight", "model.norm.weight", "model.embed_tokens.weight"]
)
def test_a_tensor_that_holds_no_numbers_is_named(refusal, name: str, value: float) -> None:
    def spoil(held: dict) -> dict:
        held[name].reshape(-1)[3] = value
        return held

    assert f"`{name}` holds values that are no numbers" in refusal(tensors=spoil)


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [
        ("model.layers.1.mlp.down_proj.weight", 3000, 9000),
        ("model.layers.0.self_attn.q_proj.weight", 0, None),
        ("model.norm.weight", 0, None),
        ("model.embed_tokens.weight", 3000, 9000),
        ("model.embed_tokens.weight", 0, None),
    ],
)
def test_a_hole_of_zeros_is_refused_by_its_tensor(refusal, name: str, begin: int, end: int | None) -> None:
    def lose(held: dict) -> dict:
        held[name].reshape(-1)[begin:end] = 0
        return held

    assert f"`{name}` is filled with zeros" in refusal(tensors=lose)


def test_a_file_whose_end_was_lost_to_zeros_is_refused(refusal) -> None:
    def lose(folder: Path) -> None:
        path = folder / "model.safetensors"
        content = path.read_bytes()
        path.write_bytes(content[:-300_000] + bytes(300_000))

    assert "is filled with zeros: the download did not finish" in refusal(lose)


def test_what_the_builder_would_read_blindly_is_looked_at_before(tmp_path: Path) -> None:
    held = {
        "rows": np.ones((64, 256), np.float32),
        "weight": np.ones((32, 512), np.float32),
        "bias": np.zeros(2048, np.float32),
    }
    held["rows"][40:] = 0  # for no token
    write_safetensors(tmp_path / "model.safetensors", held)
    SafetensorsFolder(tmp_path).require_whole(vocabulary=64)
    for name, value in (("weight", 0), ("bias", np.nan)):
        spoilt = held | {name: held[name].copy()}
        spoilt[name].reshape(-1)[300:1400] = value
        write_safetensors(tmp_path / "model.safetensors", spoilt)
        with pytest.raises(NotImportable, match=f"`{name}`"):
            SafetensorsFolder(tmp_path).require_whole(vocabulary=64)


def test_values_that_float16_cannot_hold_are_refused_for_it(refusal) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    said = refusal(tensors=lambda held: held | {name: held[name] * np.float32(1e8)}, precision=Precision.FP16)
    assert f"`{name}`" in said
    assert "int8" in said


def test_integers_are_not_quantized_again(refusal) -> None:
    def integers(folder: Path) -> None:
        write_safetensors(folder / "model.safetensors", {"qweight": np.zeros((4, 4))}, "I32")

    said = refusal(integers)
    assert "`qweight` is I32" in said
    assert "GGUF" in said


@pytest.mark.parametrize("file", ["tokenizer.json", "chat_template.jinja"])
def test_a_folder_that_cannot_be_talked_to_is_refused(refusal, file: str) -> None:
    assert file in refusal(lambda folder: (folder / file).unlink())


def test_an_index_that_names_what_is_elsewhere_is_refused(refusal) -> None:
    def leave(folder: Path) -> None:
        index = {"weight_map": {"a": "../model.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")

    assert "no file beside it" in refusal(leave)


def test_a_file_that_the_index_names_must_be_there(refusal) -> None:
    def lose(folder: Path) -> None:
        index = {"weight_map": {"a": "model-00002-of-00002.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")

    assert "model-00002-of-00002.safetensors is missing" in refusal(lose)

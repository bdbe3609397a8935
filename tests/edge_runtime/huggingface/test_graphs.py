"""The graphs of a small Hugging Face folder beside a decoder in plain NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from edge_runtime.build.gguf.blocks import Blocks
from edge_runtime.build.huggingface.config import read_config
from edge_runtime.build.huggingface.folder import write_folder
from edge_runtime.build.huggingface.quantize import quantize
from edge_runtime.build.huggingface.tensors import Precision
from tests.support.gguf_files import HEAD_SIZE, WINDOW, Contents, config_of, load, make_contents, reference_logits
from tests.support.huggingface_files import as_kind, tensors_of, write_model

F32 = GGMLQuantizationType.F32
TOKENS = [72, 5, 255, 256, 13, 13, 100, 42, 7, 8, 9, 10, 201, 33]


def graphs_of(source: Path, precision: Precision = Precision.FP32, adapter: Path | None = None) -> Path:
    folder = source.parent / f"{source.name}-{precision.value}"
    folder.mkdir()
    write_folder(source, read_config(source), adapter, precision, folder)
    return folder


def rounded(made: Contents, kind: str) -> Contents:
    """The contents as they are once stored in another type of number."""
    for name, (_, values, shape) in made.tensors.items():
        stored = as_kind(values, kind)
        back = (stored.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else stored.astype(np.float32)
        made.tensors[name] = (F32, back, shape)
    return made


def assert_reads(folder: Path, expected: np.ndarray, tolerance: float) -> None:
    graph = load(folder)
    span = np.ptp(expected)
    for end in (1, 5, len(TOKENS)):
        np.testing.assert_allclose(graph.prefill(0, TOKENS[:end], 0), expected[end - 1], rtol=0, atol=tolerance * span)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_every_family_computes_what_it_says(tmp_path: Path, architecture: str, tied: bool) -> None:
    made = make_contents(architecture, F32, tied=tied, biases=architecture == "qwen2")
    source = write_model(tmp_path / "model", made, tensors_of(made))
    assert_reads(graphs_of(source), reference_logits(made, TOKENS), 3e-6)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_every_type_of_number_is_read_as_it_stands(tmp_path: Path, kind: str) -> None:
    made = rounded(make_contents(kind=F32), kind)
    source = write_model(tmp_path / "model", made, tensors_of(made), kind=kind)
    assert_reads(graphs_of(source), reference_logits(made, TOKENS), 3e-6)


def test_weights_in_several_files_are_one_model(tmp_path: Path) -> None:
    import json

    from tests.support.huggingface_files import write_safetensors

    made = make_contents(kind=F32)
    tensors = tensors_of(made)
    source = write_model(tmp_path / "model", made, tensors)
    (source / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, held in shards.items():
        write_safetensors(source / file, {name: tensors[name] for name in held})
    index = {"weight_map": {name: file for file, held in shards.items() for name in held}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert_reads(graphs_of(source), reference_logits(made, TOKENS), 3e-6)


@pytest.mark.parametrize(
    ("scaling", "factor"),
    [({"rope_scaling": {"type": "linear", "factor": 2.0}}, 2.0), ({"rope_scaling": None}, 1.0)],
)
def test_rotary_embeddings_are_scaled_as_asked(tmp_path: Path, scaling: dict, factor: float) -> None:
    made = make_contents(kind=F32)
    source = write_model(tmp_path / "model", made, tensors_of(made), **scaling)
    assert_reads(graphs_of(source), reference_logits(made, TOKENS, factor=factor), 3e-6)


def test_llama_3_stretches_long_waves_and_leaves_short_ones(tmp_path: Path) -> None:
    made = make_contents(kind=F32)
    asked = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    rope = {"rope_parameters": {"rope_type": "llama3", "rope_theta": 10_000.0, **asked}}
    source = write_model(tmp_path / "model", made, tensors_of(made), **rope)
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(head_dim=HEAD_SIZE, max_position_embeddings=WINDOW, **rope)
    theirs = np.asarray(ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")[0])
    divisors = (10_000.0 ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE) / theirs).astype(np.float32)
    assert divisors[0] == pytest.approx(1.0)
    assert divisors[-1] == pytest.approx(8.0)
    assert_reads(graphs_of(source), reference_logits(made, TOKENS, divisors), 3e-6)


def test_float16_is_kept_as_such_and_computed_in_float32_by_one_graph(tmp_path: Path) -> None:
    made = rounded(make_contents(kind=F32), "F16")
    source = write_model(tmp_path / "model", made, tensors_of(made))
    folder, whole = graphs_of(source, Precision.FP16), graphs_of(source)
    assert_reads(folder, reference_logits(made, TOKENS), 3e-6)
    sizes = [(each / "model.onnx.data").stat().st_size for each in (folder, whole)]
    assert sizes[0] < 0.6 * sizes[1]
    assert not (folder / "prefill.onnx").exists()
    assert "prefill_filename" not in config_of(folder)["decoder"]
    reads = [config_of(each)["decoder"]["bytes_per_token"] for each in (folder, whole)]
    assert reads[0] == reads[1], "what is kept in float16 is read in float32"


def test_quantized_graphs_compute_what_their_blocks_say(tmp_path: Path) -> None:
    made = make_contents(kind=F32)
    source = write_model(tmp_path / "model", made, tensors_of(made))
    for precision in (Precision.INT4, Precision.INT8):
        lossy = make_contents(kind=F32)
        for name, (_, values, shape) in lossy.tensors.items():
            if len(shape) == 2:
                # Rows that a file of `llama` holds in another order are quantized row by row, so the order is free.
                bits = 8 if precision is Precision.INT8 or name == "token_embd.weight" else 4
                lossy.tensors[name] = (F32, quantize(values, bits).values(), shape)
        assert_reads(graphs_of(source, precision), reference_logits(lossy, TOKENS), 2e-4)


@pytest.mark.parametrize(("bits", "share"), [(4, 0.075), (8, 0.0055)])
def test_quantizing_errs_little_keeps_zeros_and_finds_a_grid_again(bits: int, share: float) -> None:
    weights = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)
    weights[3] = 0
    weights[4] = -0.25
    found = quantize(weights, bits)
    assert isinstance(found, Blocks)
    assert np.sqrt(np.mean(np.square(found.values() - weights))) < share
    assert not found.values()[3].any()
    np.testing.assert_allclose(found.values()[4], -0.25, rtol=1e-6)
    again = quantize(found.values(), bits)
    np.testing.assert_allclose(again.values(), found.values(), atol=1e-5)


def test_four_bits_err_less_than_rounding_to_the_nearest_of_evenly_spread_levels() -> None:
    weights = np.random.default_rng(2).standard_normal((64, 256)).astype(np.float32)
    blocks = weights.reshape(64, 8, 32)
    low, step = blocks.min(-1, keepdims=True), np.ptp(blocks, axis=-1, keepdims=True) / 15
    plain = (np.rint((blocks - low) / step) * step + low).reshape(weights.shape)
    error, plain_error = (float(np.square(each - weights).sum()) for each in (quantize(weights, 4).values(), plain))
    assert error < 0.9 * plain_error

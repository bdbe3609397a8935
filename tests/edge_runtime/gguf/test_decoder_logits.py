"""The graphs of a small file beside a decoder in plain NumPy, on the weights that the file itself dequantizes to."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import onnx
import pytest
from gguf import GGMLQuantizationType

from edge_runtime.build.gguf.folder import write_folder
from tests.support.gguf_files import HEAD_SIZE, LAYERS, Contents, config_of, load, make_contents, reference_logits

Kind = GGMLQuantizationType
KINDS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "F16", "BF16", "F32"]
TOKENS = [72, 5, 255, 256, 13, 13, 100, 42, 7, 8, 9, 10, 201, 33]


def imported(made: Contents, tmp_path: Path, name: str = "folder") -> Path:
    folder = tmp_path / name
    folder.mkdir()
    write_folder(made.write(tmp_path / f"{name}.gguf"), folder)
    return folder


def assert_reads_exactly(folder: Path, expected: np.ndarray, tolerance: float = 2e-4) -> None:
    """Prompts: every position in chunks of all sizes. Decoding: as near as activations of eight bits come.

    `tolerance` is of the logits' span. In 2e-4 there is room for the two terms that stand for float32 beside codes of
    eight bits; codes of four bits meet float32 itself.
    """
    graph = load(folder)
    span = np.ptp(expected)
    for end in range(1, len(TOKENS) + 1):
        np.testing.assert_allclose(graph.prefill(0, TOKENS[:end], 0), expected[end - 1], rtol=0, atol=tolerance * span)
    graph.prefill(1, TOKENS[:5], 0)
    np.testing.assert_allclose(graph.prefill(1, TOKENS[5:], 5), expected[-1], rtol=0, atol=tolerance * span)
    errors = [graph.decode([token], [at])[0] - expected[at] for at, token in enumerate(TOKENS)]
    assert np.sqrt(np.mean(np.square(errors))) < 0.02 * span


@pytest.mark.parametrize("name", KINDS)
def test_every_type_computes_what_the_files_own_weights_compute(tmp_path: Path, name: str) -> None:
    made = make_contents(kind=Kind[name])
    tolerance = 2e-4 if name in ("Q5_0", "Q5_1", "Q8_0", "Q5_K", "Q6_K") else 3e-6
    assert_reads_exactly(imported(made, tmp_path), reference_logits(made, TOKENS), tolerance)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_every_architecture_computes_what_it_says(tmp_path: Path, architecture: str, tied: bool) -> None:
    made = make_contents(architecture, Kind.Q8_0, tied=tied, biases=architecture == "qwen2")
    assert_reads_exactly(imported(made, tmp_path), reference_logits(made, TOKENS))


def test_queries_and_keys_of_a_llama_have_their_biases_put_in_order_too(tmp_path: Path) -> None:
    made = make_contents("llama", Kind.Q4_1, biases=True)
    assert_reads_exactly(imported(made, tmp_path), reference_logits(made, TOKENS))


def test_types_are_mixed_as_files_mix_them(tmp_path: Path) -> None:
    kinds = {
        **{"token_embd.weight": Kind.Q6_K, "attn_v.weight": Kind.Q6_K, "0.ffn_down.weight": Kind.Q5_K},
        **{"1.ffn_down.weight": Kind.F16, "1.ffn_up.weight": Kind.Q4_0, "0.attn_k.weight": Kind.BF16},
    }
    made = make_contents("llama", Kind.Q4_K, kinds, biases=True)
    folder = imported(made, tmp_path)
    assert_reads_exactly(folder, reference_logits(made, TOKENS))


@pytest.mark.parametrize("name", ["Q4_1", "Q8_0", "Q6_K", "F16"])
def test_a_tied_head_is_the_embeddings_own_bytes(tmp_path: Path, name: str) -> None:
    tied, own = (
        (imported(make_contents(kind=Kind[name], tied=tied), tmp_path, str(tied)) / "model.onnx.data").stat().st_size
        for tied in (True, False)
    )
    made = make_contents(kind=Kind[name])
    head = made.tensors["token_embd.weight"][1].nbytes
    assert own - tied >= head * (2 if name == "F16" else 1)


def test_what_shares_its_input_is_one_matrix_and_both_graphs_read_one_file(tmp_path: Path) -> None:
    folder = imported(make_contents(kind=Kind.Q4_1), tmp_path)
    for name in ("model.onnx", "prefill.onnx"):
        graph = onnx.load(folder / name, load_external_data=False).graph
        products = [node for node in graph.node if node.op_type == "MatMulNBits"]
        assert len(products) == 4 * LAYERS + 1
        # One sum of blocks for each input that a matrix with minima reads, and one for the head.
        assert sum(node.op_type == "ReduceSum" for node in graph.node) == 4 * LAYERS + 2
        places = {entry.value for each in graph.initializer for entry in each.external_data if entry.key == "location"}
        assert places == {"model.onnx.data"}
    assert sorted(path.name for path in folder.iterdir()) == [
        *("chat_template.jinja", "genai_config.json", "model.onnx", "model.onnx.data", "prefill.onnx"),
        *("tokenizer.json", "tokenizer_config.json"),
    ]
    assert config_of(folder)["decoder"]["prefill_filename"] == "prefill.onnx"


def test_linear_scaling_and_frequency_divisors_of_the_rotary_embedding_are_applied(tmp_path: Path) -> None:
    made = make_contents(kind=Kind.F32)
    made.keys |= {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    divisors = np.linspace(1, 8, HEAD_SIZE // 2, dtype=np.float32)
    made.tensors["rope_freqs.weight"] = (Kind.F32, divisors, divisors.shape)
    assert_reads_exactly(imported(made, tmp_path), reference_logits(made, TOKENS, divisors, 4.0))


def test_rows_of_different_lengths_decode_as_each_does_alone(tmp_path: Path) -> None:
    made = make_contents(kind=Kind.Q4_K)
    graph = load(imported(made, tmp_path))
    prompts = [TOKENS[:3], TOKENS[:9], TOKENS[:1]]
    for slot, prompt in enumerate(prompts):
        graph.prefill(slot, prompt, 0)
    together = graph.decode([1, 2, 3], [3, 9, 1]).copy()
    for row, prompt in enumerate(prompts):
        expected = reference_logits(made, [*prompt, row + 1])[-1]
        assert np.sqrt(np.mean(np.square(together[row] - expected))) < 0.02 * np.ptp(expected)


def test_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = (imported(make_contents("qwen3", Kind.Q5_K), tmp_path, name) for name in ("one", "other"))
    for path in one.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes(), path.name


def test_the_reference_itself_depends_on_every_tensor() -> None:
    made = make_contents("qwen3", Kind.F32, tied=False, biases=True)
    expected = reference_logits(made, TOKENS)
    for name, (kind, data, shape) in list(made.tensors.items()):
        made.tensors[name] = (kind, gguf.quantize(data * 1.5, kind), shape)
        assert not np.allclose(reference_logits(made, TOKENS), expected), name
        made.tensors[name] = (kind, data, shape)

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from edge_runtime.generation.errors import GraphRunFailed
from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from runtime_server.model_manifest import ModelUnsupported

POISON = 63
PROMPTS = [[5, 9, 33], [1, 2, 3, 4, 5, 6, 7, 8], [40], [11, 50, 2, 60, 7]]


def load(folder: Path, slots: int = 4, window: int = 96) -> DecoderGraph:
    return DecoderGraph(folder, read_genai_config(folder), slots=slots, window=window, threads=1)


@pytest.mark.parametrize(
    "shape", [{}, {"pruned": False}, {"chosen": True}, {"positions": True}, {"float_type": TensorProto.FLOAT16}]
)
def test_rows_of_different_lengths_decode_as_each_does_alone(tiny_model, shape):
    graph, alone = load(tiny_model("a", **shape)), load(tiny_model("b", **shape))
    for slot, prompt in enumerate(PROMPTS):
        graph.prefill(slot, prompt, 0)
    lengths = [len(prompt) for prompt in PROMPTS]
    together = graph.decode([10, 20, 30, 40], lengths)
    for row, prompt in enumerate(PROMPTS):
        alone.prefill(0, prompt, 0)
        expected = alone.decode([10 * (row + 1)], [lengths[row]])[0]
        np.testing.assert_allclose(together[row], expected, rtol=1e-2 if "float_type" in shape else 1e-4, atol=1e-4)
    assert together.dtype == np.float32


@pytest.mark.parametrize("shape", [{}, {"pruned": False}, {"chosen": True}, {"positions": True}, {"reading": {}}])
def test_a_prompt_read_in_chunks_is_the_prompt_read_at_once(tiny_model, shape):
    graph = load(tiny_model(**shape))
    prompt = list(range(1, 31))
    whole = graph.prefill(0, prompt, 0).copy()
    for begin in range(0, 30, 7):
        chunked = graph.prefill(1, prompt[begin : begin + 7], begin)
    np.testing.assert_allclose(chunked, whole, rtol=1e-4, atol=1e-5)
    assert not np.allclose(graph.prefill(2, prompt[1:], 0), whole)


def test_a_folder_with_two_graphs_reads_prompts_with_one_and_decodes_with_the_other_on_one_cache(tiny_model):
    blotting = {"nan_from_length": 0}
    alone = load(tiny_model("alone"))
    for slot, prompt in enumerate(PROMPTS):
        alone.prefill(slot, prompt, 0)
    expected = alone.decode([10, 20, 30, 40], [len(prompt) for prompt in PROMPTS]).copy()

    graph = load(tiny_model("reads with another", reading=blotting))
    for slot, prompt in enumerate(PROMPTS):
        assert np.isnan(graph.prefill(slot, prompt, 0)).all()  # of what it says; its keys and values are sound
    np.testing.assert_array_equal(graph.decode([10, 20, 30, 40], [len(prompt) for prompt in PROMPTS]), expected)

    graph = load(tiny_model("decodes with another", reading={"nan_from_length": 1 << 20}, **blotting))
    assert np.isfinite(graph.prefill(0, PROMPTS[0], 0)).all()
    assert np.isnan(graph.decode([10], [3])).all()


def test_two_graphs_that_keep_different_numbers_are_refused(tiny_model):
    with pytest.raises(ModelUnsupported, match=r"prefill\.onnx keeps another type"):
        load(tiny_model(reading={"float_type": TensorProto.FLOAT16}))


def test_a_second_graph_that_is_missing_is_refused_by_name(tiny_model):
    folder = tiny_model(reading={})
    (folder / "prefill.onnx").unlink()
    with pytest.raises(ModelUnsupported, match=r"prefill\.onnx cannot be loaded"):
        load(folder)


def test_a_moved_slot_goes_on_where_it_was(tiny_model):
    graph = load(tiny_model())
    graph.prefill(3, PROMPTS[1], 0)
    graph.prefill(0, PROMPTS[1], 0)
    expected = graph.decode([9], [8])[0].copy()
    graph.prefill(0, PROMPTS[0], 0)
    graph.copy(3, 0, 8)
    np.testing.assert_array_equal(graph.decode([9], [8])[0], expected)


def test_what_a_former_request_left_in_a_slot_reaches_nobody(tiny_model):
    graph = load(tiny_model())
    graph.prefill(1, PROMPTS[3], 0)
    expected = graph.decode([1, 2], [0, 5])[1].copy()
    graph.prefill(1, [POISON] * 20, 0)
    graph.prefill(0, list(range(30)), 0)
    graph.prefill(1, PROMPTS[3], 0)
    np.testing.assert_allclose(graph.decode([1, 2], [30, 5])[1], expected, rtol=1e-4, atol=1e-5)


def test_memory_for_the_cache_is_committed_only_as_it_fills(tiny_model):
    def resident_kb() -> int:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

    folder = tiny_model()
    before = resident_kb()
    graph = load(folder, slots=64, window=1 << 13)  # 512 strips of 512 kB; 2 MB pages would fill them all
    for slot in range(64):
        graph.prefill(slot, list(range(60)), 0)
    graph.decode([1] * 64, [60] * 64)
    graph.copy(63, 0, 61)
    assert resident_kb() - before < 40_000


def test_a_run_that_the_runtime_refuses_is_told_and_the_next_one_works(tiny_model):
    graph = load(tiny_model())
    expected = graph.prefill(0, PROMPTS[0], 0).copy()
    with pytest.raises(GraphRunFailed):
        graph.prefill(0, [64], 0)
    np.testing.assert_array_equal(graph.prefill(0, PROMPTS[0], 0), expected)


def test_the_provider_told_is_the_one_that_runs(tiny_model):
    assert load(tiny_model()).provider == "CPUExecutionProvider"


@pytest.mark.parametrize(
    "content", [b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", b"<html></html>", b""]
)
def test_a_file_that_is_no_graph_is_refused(tiny_model, content):
    folder = tiny_model()
    (folder / "model.onnx").write_bytes(content)
    with pytest.raises(ModelUnsupported, match=r"model\.onnx cannot be loaded"):
        load(folder)


def test_a_graph_with_other_inputs_or_layers_than_described_is_refused_by_name(tiny_model):
    folder = tiny_model(positions=True)
    config = (folder / "genai_config.json").read_text(encoding="utf-8")
    (folder / "genai_config.json").write_text(config.replace(': "position_ids"', ': "place_ids"'), encoding="utf-8")
    with pytest.raises(ModelUnsupported, match="position_ids"):
        load(folder)
    deeper = config.replace('"num_hidden_layers": 2', '"num_hidden_layers": 3')
    (folder / "genai_config.json").write_text(deeper, encoding="utf-8")
    with pytest.raises(ModelUnsupported, match=r"past_key_values\.2\.key"):
        load(folder)


def test_a_description_that_lacks_a_fact_is_refused_by_field(tiny_model):
    folder = tiny_model()
    path = folder / "genai_config.json"
    config = path.read_text(encoding="utf-8")
    path.write_text(config.replace('"head_size"', '"head_sighs"'), encoding="utf-8")
    with pytest.raises(ModelUnsupported, match=r"model\.decoder\.head_size"):
        read_genai_config(folder)
    path.unlink()
    with pytest.raises(ModelUnsupported, match="cannot be read"):
        read_genai_config(folder)

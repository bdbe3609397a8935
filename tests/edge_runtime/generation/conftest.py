"""A decoder that is real in all but size: it runs in microseconds, and what it says depends on every token before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from runtime_server import model_manifest

VOCABULARY, HIDDEN, HEADS, KV_HEADS, HEAD_SIZE, LAYERS, WINDOW = 64, 32, 4, 2, 16, 2, 96
POISON = VOCABULARY - 1  # its embedding is NaN


@pytest.fixture
def tiny_model(tmp_path: Path) -> Callable[..., Path]:
    """Return a maker of model folders in onnxruntime-genai's format, complete with a manifest."""

    def make(
        name: str = "tiny",
        *,
        pruned: bool = True,
        positions: bool = False,
        float_type: int = TensorProto.FLOAT,
        nan_from_length: int = 1 << 20,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        graph = _decoder(pruned, positions, float_type, nan_from_length)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "model.onnx")
        (folder / "genai_config.json").write_text(json.dumps(_config(positions)), encoding="utf-8")
        (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
        complete(folder)
        return folder

    return make


def complete(folder: Path) -> None:
    files = model_manifest.hash_folder(folder)
    manifest = model_manifest.Manifest(
        name=folder.name,
        public_model="tiny",
        digest=model_manifest.digest_of(files),
        files=files,
        source={},
        format="onnx-genai",
        window=WINDOW,
        created_by={},
    )
    model_manifest.write_manifest(folder, manifest)


def _config(positions: bool) -> dict[str, object]:
    inputs = {
        "input_ids": "input_ids",
        "attention_mask": "attention_mask",
        "past_key_names": "past_key_values.%d.key",
        "past_value_names": "past_key_values.%d.value",
    }
    decoder = {
        "filename": "model.onnx",
        "head_size": HEAD_SIZE,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "inputs": inputs | ({"position_ids": "position_ids"} if positions else {}),
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
    }
    return {"model": {"context_length": WINDOW, "vocab_size": VOCABULARY, "decoder": decoder, "type": "llama"}}


def _decoder(pruned: bool, positions: bool, float_type: int, nan_from_length: int) -> onnx.GraphProto:
    random = np.random.default_rng(7)
    dtype = helper.tensor_dtype_to_np_dtype(float_type)
    weights: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def constant(name: str, value: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(value, name))
        return name

    def matrix(name: str, rows: int, columns: int) -> str:
        return constant(name, (random.standard_normal((rows, columns)) * 1.5 / np.sqrt(rows)).astype(dtype))

    def node(kind: str, *inputs: str, outputs: int | list[str] = 1, domain: str = "", **attributes: object) -> str:
        names = outputs if isinstance(outputs, list) else [f"{kind}_{len(nodes)}"]
        nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names[0]

    one = constant("one", np.array([1], np.int64))
    embedding = random.standard_normal((VOCABULARY, HIDDEN)).astype(dtype)
    embedding[POISON] = np.nan
    angles = np.arange(WINDOW)[:, None] / 100.0 ** (np.arange(HEAD_SIZE // 2) / (HEAD_SIZE // 2))
    cos, sin = constant("cos", np.cos(angles).astype(dtype)), constant("sin", np.sin(angles).astype(dtype))
    # As the model builder does: a row's length is the number of its ones, the longest row's is the mask's width.
    length = node("ReduceSum", "attention_mask", one, keepdims=0)
    past_last = node("Cast", node("Sub", length, one), to=TensorProto.INT32)
    width = node("Gather", node("Shape", "attention_mask"), constant("axis", np.array(1, np.int64)))
    total = node("Cast", width, to=TensorProto.INT32)

    hidden = node("Gather", constant("embedding", embedding), "input_ids")
    if positions:
        table = constant("positions", random.standard_normal((WINDOW, HIDDEN)).astype(dtype))
        hidden = node("Add", hidden, node("Gather", table, "position_ids"))
    inputs = ["input_ids", "attention_mask", *(["position_ids"] if positions else [])]
    graph_inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs]
    graph_inputs[1] = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"])
    graph_outputs = [helper.make_tensor_value_info("logits", float_type, ["batch", 1 if pruned else "n", VOCABULARY])]
    for layer in range(LAYERS):
        query, key, value = (
            node("MatMul", hidden, matrix(f"{part}{layer}", HIDDEN, heads * HEAD_SIZE))
            for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))
        )
        pasts = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        presents = [f"present.{layer}.{part}" for part in ("key", "value")]
        attended = node(
            "GroupQueryAttention",
            *(query, key, value, *pasts, past_last, total, cos, sin),
            outputs=[f"attended_{layer}", *presents],
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=KV_HEADS,
            do_rotary=1,
        )
        hidden = node("Add", hidden, node("MatMul", attended, matrix(f"o{layer}", HEADS * HEAD_SIZE, HIDDEN)))
        shape = ["batch", KV_HEADS, "window", HEAD_SIZE]
        graph_inputs += [helper.make_tensor_value_info(name, float_type, shape) for name in pasts]
        graph_outputs += [helper.make_tensor_value_info(name, float_type, shape) for name in presents]
    if pruned:
        minus_one, end = constant("minus_one", np.array([-1], np.int64)), constant("end", np.array([1 << 31], np.int64))
        hidden = node("Slice", hidden, minus_one, end, one)
    too_long = node("GreaterOrEqual", length, constant("nan_from", np.array(nan_from_length, np.int64)))
    nan, zero = constant("nan", np.array(np.nan, dtype)), constant("zero", np.array(0, dtype))
    blot = node("Unsqueeze", node("Where", too_long, nan, zero), constant("axes", np.array([1, 2], np.int64)))
    logits = node("MatMul", node("Tanh", hidden), matrix("head", HIDDEN, VOCABULARY))
    node("Add", logits, blot, outputs=["logits"])
    return helper.make_graph(nodes, "tiny", graph_inputs, graph_outputs, weights)

"""A decoder that is real in all but size: it runs in microseconds, and what it says depends on every token before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.generation.genai_config import read_genai_config
from edge_runtime.generation.graph import DecoderGraph
from edge_runtime.generation.occupancy import Occupancy
from edge_runtime.generation.request import Request
from edge_runtime.generation.scheduler import News, Scheduler
from inference_protocol.sampling import Sampling
from runtime_server import model_manifest
from runtime_server.engine import FinishReason, GenerationJob
from runtime_server.moments import Moments
from runtime_server.speed_meter import SpeedMeter

VOCABULARY, HIDDEN, HEADS, KV_HEADS, HEAD_SIZE, LAYERS, WINDOW = 64, 32, 4, 2, 16, 2, 1 << 16
POISON = VOCABULARY - 1  # its embedding is NaN; it is never said


@pytest.fixture
def tiny_model(tmp_path: Path) -> Callable[..., Path]:
    """Return a maker of model folders in onnxruntime-genai's format, complete with a manifest."""

    def make(
        name: str = "tiny",
        *,
        reading: Mapping[str, object] | None = None,
        **shape: object,
    ) -> Path:
        """`shape` is that of the graph; `reading`, if given, that of a second one for prompts."""
        folder = tmp_path / name
        folder.mkdir()
        graphs = {"model.onnx": shape} | ({} if reading is None else {"prefill.onnx": shape | reading})
        for file, its_shape in graphs.items():
            opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
            onnx.save(helper.make_model(_decoder(**its_shape), opset_imports=opsets, ir_version=10), folder / file)
        config = _config(bool(shape.get("positions")), "prefill.onnx" if reading is not None else None)
        (folder / "genai_config.json").write_text(json.dumps(config), encoding="utf-8")
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


GREEDY = Sampling(temperature=0.0)


@pytest.fixture
def job() -> Callable[..., GenerationJob]:
    """Return a maker of jobs, greedy and without stop tokens unless told otherwise."""

    def make(prompt: list[int] | range, max_tokens: int = 8, **changes: object) -> GenerationJob:
        defaults = {"request_id": "r", "sampling": GREEDY, "stop_tokens": frozenset()}
        return GenerationJob(prompt=tuple(prompt), max_tokens=max_tokens, **(defaults | changes))

    return make


@dataclass
class Bench:
    """A scheduler on a real graph, driven by hand; a run takes 1 ms of its clock. Keeps what ran and what came out."""

    graph: DecoderGraph
    chunk: int = 8
    ms_per_prompt_token: float = 0.0
    more: dict[str, object] = field(default_factory=dict)
    now: float = 100.0
    runs: list[tuple[object, ...]] = field(default_factory=list)
    said: dict[Request, list[int]] = field(default_factory=dict)
    ends: dict[Request, FinishReason] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = self.graph.slots
        self.can_verify = self.graph.can_verify
        self.occupancy = Occupancy(self.slots, waiting_limit=1000)
        self.speed = SpeedMeter(prefill_tokens_per_s=100.0, ms_per_token={1: 1.0})
        self.scheduler = Scheduler(
            self,
            chunk=self.chunk,
            occupancy=self.occupancy,
            speed=self.speed,
            clock=lambda: self.now,
            **self.more,
        )

    def add(self, job: GenerationJob) -> Request:
        self.occupancy.admit(len(job.prompt))
        request = Request(job, Moments(self.now))
        self.scheduler.add(request)
        self.said[request] = []
        return request

    def hear(self, news: News) -> None:
        for request, event in news:
            assert request not in self.ends, "nothing comes after the end"
            self.said[request] += event.tokens
            if event.finish is not None:
                self.ends[request] = event.finish

    def step(self) -> None:
        self.hear(self.scheduler.expire())
        self.hear(self.scheduler.prefill())
        self.hear(self.scheduler.decode())

    def finish(self) -> None:
        while not self.scheduler.is_idle:
            self.step()

    def alone(self, job: GenerationJob) -> list[int]:
        """Return what the job says when nothing else runs."""
        bench = Bench(self.graph, self.chunk)
        request = bench.add(job)
        bench.finish()
        return bench.said[request]

    # The graph that the scheduler sees.

    def read(self, slot, tokens, length, wanted):
        self.runs.append(("prefill", slot, len(tokens)))
        self.now += 0.001 + self.ms_per_prompt_token * len(tokens) / 1000
        return self.graph.read(slot, tokens, length, wanted)

    def decode(self, tokens, lengths):
        self.runs.append(("decode", len(tokens)))
        self.now += 0.001
        return self.graph.decode(tokens, lengths)

    def verify(self, tokens, length):
        self.runs.append(("verify", len(tokens)))
        self.now += 0.001
        return self.graph.verify(tokens, length)

    def copy(self, source, target, length):
        self.runs.append(("copy", source, target, length))
        self.graph.copy(source, target, length)

    def exchange(self, one, its_length, other, other_length):
        self.runs.append(("exchange", one, other))
        self.graph.exchange(one, its_length, other, other_length)

    def release(self, slot):
        self.runs.append(("release", slot))
        self.graph.release(slot)

    def keys_and_values(self, slot, begin, end):
        return self.graph.keys_and_values(slot, begin, end)

    def put_keys_and_values(self, slot, begin, cells):
        self.graph.put_keys_and_values(slot, begin, cells)


@pytest.fixture
def bench(tiny_model: Callable[..., Path]) -> Callable[..., Bench]:
    """Return a maker of benches; what is not about the bench describes the graph."""

    def make(
        name: str = "tiny",
        slots: int = 3,
        chunk: int = 8,
        ms_per_prompt_token: float = 0.0,
        **more: object,
    ) -> Bench:
        of_scheduler = {key: more.pop(key) for key in ("reuse", "drafter", "prefixes") if key in more}
        folder = tiny_model(name, **more)
        graph = DecoderGraph(folder, read_genai_config(folder), slots=slots, window=512, threads=1)
        return Bench(graph, chunk, ms_per_prompt_token, of_scheduler)

    return make


def _config(positions: bool, prefill: str | None) -> dict[str, object]:
    inputs = {
        "input_ids": "input_ids",
        "attention_mask": "attention_mask",
        "past_key_names": "past_key_values.%d.key",
        "past_value_names": "past_key_values.%d.value",
    }
    decoder = {
        "filename": "model.onnx",
        **({"prefill_filename": prefill} if prefill else {}),
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


def _decoder(
    *,
    pruned: bool = True,
    chosen: bool = False,
    positions: bool = False,
    float_type: int = TensorProto.FLOAT,
    nan_from_length: int = 1 << 20,
    in_place: bool = True,
) -> onnx.GraphProto:
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
    graph_outputs = [
        helper.make_tensor_value_info("logits", float_type, ["batch", 1 if pruned and not chosen else "n", VOCABULARY])
    ]
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
            outputs=[f"attended_{layer}", *(presents if in_place else [f"kept_{name}" for name in presents])],
            domain="com.microsoft",
            num_heads=HEADS,
            kv_num_heads=KV_HEADS,
            do_rotary=1,
        )
        if not in_place:  # a cache that grows with every run, as graphs without `GroupQueryAttention` have it
            for past, present in zip(pasts, presents, strict=True):
                node("Concat", past, f"kept_{present}", outputs=[present], axis=2)
        hidden = node("Add", hidden, node("MatMul", attended, matrix(f"o{layer}", HEADS * HEAD_SIZE, HIDDEN)))
        shape = ["batch", KV_HEADS, "window", HEAD_SIZE]
        graph_inputs += [helper.make_tensor_value_info(name, float_type, shape) for name in pasts]
        graph_outputs += [helper.make_tensor_value_info(name, float_type, shape) for name in presents]
    if chosen:
        graph_inputs.append(helper.make_tensor_value_info("logits_indices", TensorProto.INT64, ["n"]))
        hidden = node("Gather", hidden, "logits_indices", axis=1)
    elif pruned:
        minus_one, end = constant("minus_one", np.array([-1], np.int64)), constant("end", np.array([1 << 31], np.int64))
        hidden = node("Slice", hidden, minus_one, end, one)
    too_long = node("GreaterOrEqual", length, constant("nan_from", np.array(nan_from_length, np.int64)))
    nan, zero = constant("nan", np.array(np.nan, dtype)), constant("zero", np.array(0, dtype))
    blot = node("Unsqueeze", node("Where", too_long, nan, zero), constant("axes", np.array([1, 2], np.int64)))
    logits = node("MatMul", node("Tanh", hidden), matrix("head", HIDDEN, VOCABULARY))
    never_said = constant("never_said", np.where(np.arange(VOCABULARY) == POISON, -1e4, 0).astype(dtype))
    node("Add", node("Add", logits, never_said), blot, outputs=["logits"])
    return helper.make_graph(nodes, "tiny", graph_inputs, graph_outputs, weights)

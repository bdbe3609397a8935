"""The graph of a decoder of the Llama family, as few nodes as ONNX Runtime's own operators allow.

Its inputs and outputs are those of onnxruntime-genai's graphs, and one more: `logits_indices` names the positions whose
logits are wanted, since the head is the largest matrix of a small model.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto, helper

from edge_runtime.build.gguf.architecture import Architecture
from edge_runtime.build.gguf.matmul import Activations, Multiplier
from edge_runtime.build.gguf.nodes import Nodes
from edge_runtime.build.gguf.weights import DecoderWeights, LayerWeights
from edge_runtime.build.gguf.weights_file import WeightsFile


def decoder_graph(
    architecture: Architecture, weights: DecoderWeights, file: WeightsFile, activations: Activations
) -> onnx.ModelProto:
    """Return the graph over weights that were written."""
    return _Decoder(architecture, weights, Nodes(file), activations).build()


class _Decoder:
    def __init__(
        self, architecture: Architecture, weights: DecoderWeights, nodes: Nodes, activations: Activations
    ) -> None:
        self._shape = architecture
        self._weights = weights
        self._nodes = nodes
        self._multiplier = Multiplier(nodes, activations)

    def build(self) -> onnx.ModelProto:
        lengths = self._lengths()
        stream = self._embed()
        first = self._weights.layers[0].attention_norm
        normal = self._nodes.add("SimplifiedLayerNormalization", "first_norm", stream, first, **self._norm(), axis=-1)
        following = [*(layer.attention_norm for layer in self._weights.layers[1:]), self._weights.final_norm]
        for index, (layer, next_norm) in enumerate(zip(self._weights.layers, following, strict=True)):
            attended = self._attend(index, layer, normal, lengths)
            normal, stream = self._add_and_norm(f"layer{index}.middle", stream, attended, layer.feed_forward_norm)
            fed = self._feed_forward(index, layer, normal)
            normal, stream = self._add_and_norm(f"layer{index}.end", stream, fed, next_norm)
        asked = self._nodes.add("Gather", "asked", normal, "logits_indices", axis=1)
        logits = self._multiplier.project(self._weights.head, asked, "head")
        self._nodes.add("Identity", "logits", logits)
        return self._nodes.model("decoder", *self._interface())

    def _lengths(self) -> tuple[str, str]:
        """Return, from the mask, each row's last position and the longest row's length, as attention wants them."""
        one = self._nodes.constant("one", np.array([1], np.int64))
        ones = self._nodes.add("ReduceSum", "row_lengths", "attention_mask", one, keepdims=0)
        last = self._nodes.add(
            "Cast", "last_positions", self._nodes.add("Sub", "last", ones, one), to=TensorProto.INT32
        )
        width = self._nodes.add("Squeeze", "width", self._nodes.add("Shape", "mask_shape", "attention_mask", start=1))
        return last, self._nodes.add("Cast", "longest", width, to=TensorProto.INT32)

    def _embed(self) -> str:
        embedding, table = self._weights.embedding, self._weights.table
        if embedding.layout is None:
            rows = self._nodes.add("Gather", "embedded", table, "input_ids", axis=0)
            return self._nodes.add("Cast", "embedded_in_float32", rows, to=TensorProto.FLOAT)
        bits, size = embedding.layout
        gathered = self._nodes.add_contrib(
            "GatherBlockQuantized",
            "gathered",
            *(table, "input_ids", embedding.scales),
            bits=bits,
            block_size=size,
            gather_axis=0,
            quantize_axis=1,
        )
        if embedding.offsets is None:
            return gathered
        # Offsets lie as the head wants them, `[blocks, tokens]`: gathered, they are `[blocks, batch, positions]`.
        offsets = self._nodes.add("Gather", "token_offsets", embedding.offsets, "input_ids", axis=1)
        offsets = self._nodes.add("Transpose", "offsets_last", offsets, perm=[1, 2, 0])
        offsets = self._nodes.add(
            "Unsqueeze", "offset_of_each", offsets, self._nodes.constant("last_axis", np.array([-1], np.int64))
        )
        shape = self._nodes.constant("embedding_blocks", np.array([0, 0, embedding.inputs // size, size], np.int64))
        blocks = self._nodes.add("Add", "offset_blocks", self._nodes.add("Reshape", "blocks", gathered, shape), offsets)
        return self._nodes.add("Reshape", "embedded", blocks, self._hidden_shape())

    def _attend(self, index: int, layer: LayerWeights, normal: str, lengths: tuple[str, str]) -> str:
        shape, name = self._shape, f"layer{index}"
        qkv = [self._multiplier.project(part, normal, f"{name}.{part.name}") for part in layer.qkv]
        if layer.query_norm is not None and layer.key_norm is not None:
            query, key, value = qkv if len(qkv) == 3 else self._cut(name, qkv[0])
            query = self._normalize_heads(f"{name}.query", query, layer.query_norm, shape.heads)
            key = self._normalize_heads(f"{name}.key", key, layer.key_norm, shape.kv_heads)
            qkv = [query, key, value]
        attended = self._nodes.add_contrib(
            "GroupQueryAttention",
            f"{name}.attended",
            *(qkv if len(qkv) == 3 else (qkv[0], None, None)),
            *(f"past_key_values.{index}.key", f"past_key_values.{index}.value"),
            *(*lengths, self._weights.cosines, self._weights.sines),
            outputs=(f"{name}.attended", f"present.{index}.key", f"present.{index}.value"),
            num_heads=shape.heads,
            kv_num_heads=shape.kv_heads,
            do_rotary=1,
        )
        return self._multiplier.project(layer.output, attended, f"{name}.output")

    def _cut(self, name: str, qkv: str) -> tuple[str, str, str]:
        """Return queries, keys and values, which were computed as one."""
        shape = self._shape
        heads = np.array([shape.heads, shape.kv_heads, shape.kv_heads], np.int64)
        sizes = self._nodes.constant("qkv_sizes", heads * shape.head_size)
        query, key, value = (f"{name}.{part}" for part in ("query", "key", "value"))
        self._nodes.split(qkv, axis=-1, into=(query, key, value), sizes=sizes)
        return query, key, value

    def _normalize_heads(self, name: str, value: str, norm: str, heads: int) -> str:
        # `GroupQueryAttention` could do this itself, but not on the CPU.
        size = self._shape.head_size
        by_head = self._nodes.constant(f"{heads}_heads", np.array([0, 0, heads, size], np.int64))
        cut = self._nodes.add("Reshape", f"{name}.by_head", value, by_head)
        normal = self._nodes.add("SimplifiedLayerNormalization", f"{name}.normal", cut, norm, **self._norm(), axis=-1)
        flat = self._nodes.constant(f"{heads}_heads_flat", np.array([0, 0, heads * size], np.int64))
        return self._nodes.add("Reshape", f"{name}.normalized", normal, flat)

    def _feed_forward(self, index: int, layer: LayerWeights, normal: str) -> str:
        name = f"layer{index}.feed_forward"
        parts = [self._multiplier.project(part, normal, f"{name}.{part.name}") for part in layer.gate_up]
        gate, up = parts if len(parts) == 2 else self._nodes.halve(f"{name}.halves", parts[0], axis=-1)
        opened = self._nodes.add_contrib("QuickGelu", f"{name}.opened", gate, alpha=1.0)  # which is SiLU
        return self._multiplier.project(layer.down, self._nodes.add("Mul", f"{name}.gated", opened, up), f"{name}.down")

    def _add_and_norm(self, name: str, stream: str, added: str, norm: str) -> tuple[str, str]:
        """Return the normalized sum, and the sum."""
        outputs = (f"{name}.normal", "", "", f"{name}.stream")
        normal = self._nodes.add_contrib(
            "SkipSimplifiedLayerNormalization", name, stream, added, norm, outputs=outputs, **self._norm()
        )
        return normal, outputs[3]

    def _norm(self) -> dict[str, float]:
        return {"epsilon": self._shape.epsilon}

    def _hidden_shape(self) -> str:
        return self._nodes.constant("hidden_shape", np.array([0, 0, self._shape.hidden], np.int64))

    def _interface(self) -> tuple[list[ValueInfoProto], list[ValueInfoProto]]:
        shape = self._shape
        cells = ("batch_size", shape.kv_heads, "cache_length", shape.head_size)

        def value(name: str, kind: int, dimensions: tuple[str | int, ...]) -> ValueInfoProto:
            return helper.make_tensor_value_info(name, kind, dimensions)

        def cache(prefix: str) -> list[ValueInfoProto]:
            names = [f"{prefix}.{index}.{part}" for index in range(shape.layers) for part in ("key", "value")]
            return [value(name, TensorProto.FLOAT, cells) for name in names]

        inputs = [
            value("input_ids", TensorProto.INT64, ("batch_size", "sequence_length")),
            value("attention_mask", TensorProto.INT64, ("batch_size", "total_sequence_length")),
            value("logits_indices", TensorProto.INT64, ("logits_count",)),
            *cache("past_key_values"),
        ]
        logits = value("logits", TensorProto.FLOAT, ("batch_size", "logits_count", self._weights.head.outputs))
        return inputs, [logits, *cache("present")]

"""The graph of a BERT encoder with mean pooling, in ONNX Runtime's own fused operators.

The encoder: Devlin et al., https://arxiv.org/abs/1810.04805. The mean of its tokens, at length 1: Reimers and Gurevych,
https://arxiv.org/abs/1908.10084.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from edge_runtime.build.embedding.sentence_model import SentenceModel
from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.blocks import Floats
from edge_runtime.build.gguf.nodes import Nodes
from edge_runtime.build.gguf.weights_file import WeightsFile
from edge_runtime.embeddings.graph import INPUTS, OUTPUT

# What the sum of a mask may be divided by, and the length of a vector: sentence-transformers' own bounds.
_LEAST_COUNT = 1e-9
_LEAST_LENGTH = 1e-12


def bert_graph(model: SentenceModel, tensors: Mapping[str, Floats], weights: WeightsFile) -> onnx.ModelProto:
    """Write the weights, and return the graph over them: `input_ids` and `attention_mask` to `sentence_embedding`.

    Raises:
        NotImportable: A tensor is missing or has another shape.
    """
    return _Bert(model, tensors, weights).graph()


class _Bert:
    """One graph in the making. Names of weights are those of the checkpoint."""

    def __init__(self, model: SentenceModel, tensors: Mapping[str, Floats], weights: WeightsFile) -> None:
        self._model = model
        self._tensors = tensors
        self._weights = weights
        self._nodes = Nodes(weights)

    def graph(self) -> onnx.ModelProto:
        mask32 = self._nodes.add("Cast", "mask.int32", INPUTS[1], to=TensorProto.INT32)
        value = self._embedded()
        for layer in range(self._model.layers):
            value = self._layer(f"encoder.layer.{layer}", value, mask32)
        self._pooled(value)
        shape = ["rows", "tokens"]
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in INPUTS]
        output = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["rows", self._model.hidden])
        return self._nodes.model("sentence_embedding", inputs, [output])

    def _embedded(self) -> str:
        """Words, places and the one segment that there is, added and normalized: `[rows, tokens, hidden]`."""
        hidden, nodes = self._model.hidden, self._nodes
        places = self._tensor("embeddings.position_embeddings.weight", self._model.positions, hidden)
        segment = self._tensor("embeddings.token_type_embeddings.weight", None, hidden)[0]
        words = self._write("embeddings.word_embeddings.weight", self._model.vocabulary, hidden)
        # Every token is of the first segment, so its row is added to the places once and for all.
        places_name = self._weights.add("embeddings.places", places + segment)
        count = nodes.add("Gather", "count", nodes.add("Shape", "shape", INPUTS[0]), nodes.constant("one", 1), axis=0)
        until = nodes.add("Unsqueeze", "until", count, nodes.constant("axis0", np.array([0])))
        nth = nodes.add("Slice", "places", places_name, nodes.constant("from", np.array([0])), until)
        found = nodes.add("Gather", "words", words, INPUTS[0], axis=0)
        return self._normalized("embeddings.LayerNorm", nodes.add("Add", "words.placed", found, nth))

    def _layer(self, at: str, value: str, mask: str) -> str:
        hidden, inner, nodes = self._model.hidden, self._model.inner, self._nodes
        parts = [f"{at}.attention.self.{part}" for part in ("query", "key", "value")]
        matrices = [self._tensor(f"{part}.weight", hidden, hidden).T for part in parts]
        biases = [self._tensor(f"{part}.bias", hidden) for part in parts]
        attention = nodes.add_contrib(
            "Attention",
            f"{at}.attention",
            value,
            self._weights.add(f"{at}.qkv", np.concatenate(matrices, axis=1)),
            self._weights.add(f"{at}.qkv.bias", np.concatenate(biases)),
            mask,
            num_heads=self._model.heads,
            mask_filter_value=float(np.finfo(np.float32).min),
        )
        attended = self._skip(f"{at}.attention.output", attention, value, hidden)
        grown = self._times(f"{at}.intermediate.dense", attended, inner, hidden)
        bias = self._write(f"{at}.intermediate.dense.bias", inner)
        active = nodes.add_contrib("BiasGelu", f"{at}.intermediate", grown, bias)
        return self._skip(f"{at}.output", active, attended, inner)

    def _skip(self, at: str, value: str, skipped: str, width: int) -> str:
        """Project back, add what was skipped, normalize."""
        hidden = self._model.hidden
        return self._nodes.add_contrib(
            "SkipLayerNormalization",
            f"{at}.LayerNorm",
            self._times(f"{at}.dense", value, hidden, width),
            skipped,
            self._write(f"{at}.LayerNorm.weight", hidden),
            self._write(f"{at}.LayerNorm.bias", hidden),
            self._write(f"{at}.dense.bias", hidden),
            epsilon=self._model.epsilon,
        )

    def _normalized(self, at: str, value: str) -> str:
        scale, bias = (self._write(f"{at}.{part}", self._model.hidden) for part in ("weight", "bias"))
        return self._nodes.add("LayerNormalization", at, value, scale, bias, axis=-1, epsilon=self._model.epsilon)

    def _times(self, at: str, value: str, into: int, width: int) -> str:
        """Multiply with a matrix, which checkpoints hold transposed."""
        matrix = self._weights.add(f"{at}.matrix", self._tensor(f"{at}.weight", into, width).T)
        return self._nodes.add("MatMul", at, value, matrix)

    def _pooled(self, value: str) -> None:
        """The mean over the tokens that count, scaled to length 1."""
        nodes = self._nodes
        mask = nodes.add("Cast", "mask.float", INPUTS[1], to=TensorProto.FLOAT)
        column = nodes.add("Unsqueeze", "mask.column", mask, nodes.constant("axis2", np.array([2])))
        tokens = nodes.constant("axis1", np.array([1]))
        total = nodes.add("ReduceSum", "pool.sum", nodes.add("Mul", "pool.masked", value, column), tokens, keepdims=0)
        least = nodes.constant("least.count", np.array(_LEAST_COUNT, np.float32))
        count = nodes.add("Max", "pool.count", nodes.add("ReduceSum", "pool.tokens", column, tokens, keepdims=0), least)
        mean = nodes.add("Div", "pool.mean", total, count)
        length = nodes.add("ReduceL2", "pool.length", mean, tokens, keepdims=1)
        least = nodes.constant("least.length", np.array(_LEAST_LENGTH, np.float32))
        nodes.add("Div", OUTPUT, mean, nodes.add("Max", "pool.bound", length, least))

    def _write(self, name: str, *shape: int) -> str:
        return self._weights.add(name, self._tensor(name, *shape))

    def _tensor(self, name: str, *shape: int | None) -> Floats:
        found = self._tensors.get(name)
        if found is None:
            raise NotImportable(f"model.safetensors lacks the tensor `{name}`.")
        fits = len(found.shape) == len(shape) and all(
            asked in (None, own) for asked, own in zip(shape, found.shape, strict=True)
        )
        if not fits:
            raise NotImportable(f"The tensor `{name}` is {list(found.shape)} where {list(shape)} is expected.")
        return found

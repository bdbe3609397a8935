"""A Hugging Face folder's weights as the graph's weights are read: an adapter merged, then quantized."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.blocks import Floats, Matrix
from edge_runtime.build.huggingface.config import Config
from edge_runtime.build.huggingface.lora import Adapter
from edge_runtime.build.huggingface.quantize import BLOCK, quantize
from edge_runtime.build.huggingface.safetensors_folder import SafetensorsFolder
from edge_runtime.build.lost_content import require_filled, require_numbers

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_VOCABULARY = ("token_embd.weight", "output.weight")


class Precision(StrEnum):
    """How weights are kept. `INT4` keeps embedding and head in eight bits, which small models need."""

    INT4 = "int4"
    INT8 = "int8"
    FP16 = "fp16"
    FP32 = "fp32"


class HuggingfaceTensors:
    """`edge_runtime.build.gguf.weights.Tensors` over an open folder."""

    def __init__(self, files: SafetensorsFolder, config: Config, adapter: Adapter | None, precision: Precision) -> None:
        """Read from `files`, merge `adapter`, keep what comes out in `precision`."""
        self._files = files
        self._config = config
        self._adapter = adapter
        self._precision = precision
        if config.tied:
            files.ignore("lm_head.weight")
        for layer in range(config.architecture.layers):  # old checkpoints keep a table that everybody computes
            files.ignore(f"model.layers.{layer}.self_attn.rotary_emb.inv_freq")

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:  # noqa: D102  # see `Tensors`
        theirs = _their_name(name)
        weights = self._files.tensor(theirs, rows, columns)
        require_numbers(theirs, weights)
        require_filled(theirs, weights, empty_rows=name in _VOCABULARY)
        if self._adapter is not None:
            weights = self._adapter.merge(theirs, weights)
        match self._precision:
            case Precision.FP32:
                return weights
            case Precision.FP16:
                return _to_float16(theirs, weights)
        if columns % BLOCK:
            raise NotImportable(
                f"The tensor `{theirs}` has rows of {columns}, which is no multiple of {BLOCK}; import it as fp16."
            )
        return quantize(weights, 8 if self._precision is Precision.INT8 or name in _VOCABULARY else 4)

    def floats(self, name: str, size: int) -> Floats:  # noqa: D102  # see `Tensors`
        theirs = _their_name(name)
        values = self._files.tensor(theirs, size)
        require_numbers(theirs, values)
        require_filled(theirs, values)
        return values

    def find_floats(self, name: str, size: int) -> Floats | None:  # noqa: D102  # see `Tensors`
        if name == "rope_freqs.weight":
            return self._config.divisors
        theirs = _their_name(name)
        found = self._files.find(theirs, size)  # a bias, which may be zeros
        require_numbers(theirs, found)
        return found

    def __contains__(self, name: object) -> bool:
        """Whether the model has it; a tied head is the embedding, even where the folder repeats it."""
        return not (self._config.tied and name == "output.weight") and _their_name(str(name)) in self._files

    def unread(self) -> list[str]:  # noqa: D102  # see `Tensors`
        return self._files.unread()


def _their_name(name: str) -> str:
    """`blk.3.attn_q.weight` is `model.layers.3.self_attn.q_proj.weight`."""
    *layer, part, end = name.split(".")
    return f"{f'model.layers.{layer[1]}.' if layer else ''}{_NAMES[part]}.{end}"


def _to_float16(name: str, weights: Floats) -> NDArray[np.float16]:
    if np.abs(weights).max(initial=0.0) > np.finfo(np.float16).max:
        raise NotImportable(f"The tensor `{name}` holds values that float16 cannot; import it as int8.")
    return weights.astype(np.float16)

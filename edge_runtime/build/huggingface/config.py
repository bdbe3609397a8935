"""The sizes and constants of a decoder of the Llama family, from a Hugging Face folder's `config.json`.

Every key must be known: one that nobody reads may change what the model computes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.architecture import Architecture
from edge_runtime.build.gguf.blocks import Floats

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_FILE = "config.json"
_Number = TypeVar("_Number", int, float)
# Say nothing about what a decoder computes when it is run.
_WITHOUT_MEANING = """
    _name_or_path architectures attention_dropout bos_token_id chunk_size_feed_forward dtype eos_token_id id2label
    initializer_range is_llama_config label2id max_window_layers model_type output_attentions output_hidden_states
    pad_token_id return_dict torch_dtype transformers.js_config transformers_version use_cache use_sliding_window
""".split()
# What would change it: (key, the one value that does not).
_FIXED = (
    ("hidden_act", "silu"),
    ("partial_rotary_factor", 1.0),
    ("is_encoder_decoder", False),
    ("rope_interleaved", False),
    ("pretraining_tp", 1),
)


@dataclass(frozen=True, slots=True)
class Config:
    """What `config.json` says of the graph.

    Attributes:
        architecture: Sizes and constants.
        vocabulary: Rows of the embedding.
        tied: Whether the head is the embedding.
        divisors: What each rotary frequency is divided by, `[head size / 2]`, where it is.
    """

    architecture: Architecture
    vocabulary: int
    tied: bool
    divisors: Floats | None


def read_config(folder: Path) -> dict[str, Any]:
    """Read the file.

    Raises:
        NotImportable: It is missing, no JSON object, or describes weights that are quantized already.
    """
    try:
        found = json.loads((folder / _FILE).read_bytes())
    except OSError as error:
        raise NotImportable(f"{folder / _FILE} cannot be read: {error.strerror}.") from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("model_type"), str):
        raise NotImportable(f"{folder / _FILE} does not name a model's family (key `model_type`).")
    if found.get("quantization_config") is not None:
        raise NotImportable(
            "The weights are quantized already (key `quantization_config`). Import the float model, or a GGUF file, "
            "whose blocks are carried over as they stand."
        )
    return found


def understand(config: Mapping[str, Any]) -> Config:
    """Take what the graph needs, and refuse what it does not know.

    Raises:
        NotImportable: The message names the key.
    """
    reader = _Reader(config)
    for key, value in _FIXED:
        reader.require_equal(key, value)
    heads, hidden = reader.number("num_attention_heads", int), reader.number("hidden_size", int)
    head_size = reader.number("head_dim", int, hidden // heads)
    window, sliding = reader.number("max_position_embeddings", int), reader.take("sliding_window")
    slides = config.get("use_sliding_window", True) or "sliding_attention" in (reader.take("layer_types") or ())
    reader.take("layer_types")
    base, factor, divisors = _rotary(reader, head_size)
    found = Config(
        architecture=Architecture(
            name=config["model_type"],
            layers=reader.number("num_hidden_layers", int),
            # Within a sliding window, attention is what it is without one.
            window=min(window, sliding) if sliding and slides else window,
            hidden=hidden,
            feed_forward=reader.number("intermediate_size", int),
            heads=heads,
            kv_heads=reader.number("num_key_value_heads", int, heads),
            head_size=head_size,
            epsilon=reader.number("rms_norm_eps", float),
            rotary_base=base,
            rotary_factor=factor,
            interleaved=False,
        ),
        vocabulary=reader.number("vocab_size", int),
        tied=bool(reader.take("tie_word_embeddings")),
        divisors=divisors,
    )
    for key in ("attention_bias", "mlp_bias"):  # the biases themselves are found, or missed, among the tensors
        reader.take(key)
    reader.require_all_known()
    return found


class _Reader:
    """`config.json`, and which keys were asked for."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._unread = set(config) - set(_WITHOUT_MEANING)

    def take(self, key: str) -> Any:
        self._unread.discard(key)
        return self._config.get(key)

    def number(self, key: str, kind: type[_Number], default: _Number | None = None) -> _Number:
        value = self.take(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0 or kind(value) != value:
            raise NotImportable(f"{_FILE}: `{key}` is {value!r}, which is no positive {kind.__name__}.")
        return kind(value)

    def require_equal(self, key: str, expected: object) -> None:
        value = self.take(key)
        if value is not None and value != expected:
            raise NotImportable(f"{_FILE}: `{key}` is {value!r}; only {expected!r} is supported here.")

    def require_all_known(self) -> None:
        for key in sorted(self._unread):
            if self._config[key] not in (None, False, [], {}):
                raise NotImportable(f"{_FILE}: the key `{key}` is not supported: the model may compute with it.")


def _rotary(reader: _Reader, head_size: int) -> tuple[float, float, Floats | None]:
    """Return base, factor and divisors, from `rope_parameters` or from the older two keys."""
    theta, older, newer = (reader.take(key) for key in ("rope_theta", "rope_scaling", "rope_parameters"))
    asked = {**(older or {}), **(newer or {})}
    base = float(asked.get("rope_theta") or theta or 10_000.0)
    kind = asked.get("rope_type") or asked.get("type") or "default"
    if kind == "default":
        return base, 1.0, None
    try:
        if kind == "linear":
            return base, float(asked["factor"]), None
        if kind == "llama3":
            return base, 1.0, _llama3_divisors(asked, base, head_size)
    except (KeyError, TypeError, ValueError) as error:
        raise NotImportable(f"{_FILE}: the rotary scaling `{kind}` lacks a number: {error}.") from None
    raise NotImportable(f"{_FILE}: the rotary scaling `{kind}` is not supported; linear and llama3 are.")


def _llama3_divisors(asked: Mapping[str, Any], base: float, head_size: int) -> Floats:
    """Long waves are stretched by `factor`, short ones left, those between mixed (transformers' `llama3`)."""
    factor, low, high = (float(asked[key]) for key in ("factor", "low_freq_factor", "high_freq_factor"))
    trained = float(asked["original_max_position_embeddings"])
    turns = trained * base ** (-np.arange(0, head_size, 2, dtype=np.float64) / head_size) / (2 * math.pi)
    share_left = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - share_left) / factor + share_left)).astype(np.float32)

"""The sizes and constants of a decoder of the Llama family, and how a GGUF file's metadata tells them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.source import GgufSource

# Mistral and SmolLM are written as `llama`.
_ARCHITECTURES = ("llama", "qwen2", "qwen3")
_WITHOUT_MEANING = (
    "vocab_size",
    "tensor_data_layout",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
)
_ROTARY_SCALINGS = ("none", "linear")
_SMALLEST_WINDOW, _LARGEST_WINDOW = 16, 1 << 20  # the largest takes half a gigabyte of cosines and sines
_Asked = TypeVar("_Asked")


@dataclass(frozen=True, slots=True)
class Architecture:
    """One decoder.

    Attributes:
        name: GGUF's name of the family.
        window: Most tokens of one sequence.
        normalizes_heads: Whether queries and keys are normalized, head by head, before they are rotated.
        rotary_base: The largest wavelength is 2π times this, nearly.
        rotary_factor: Positions are divided by it.
        interleaved: Whether the source holds the rows of queries and keys in the order of llama.cpp's rotary embedding,
            in which the two halves of a head alternate.
    """

    name: str
    layers: int
    window: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_size: int
    epsilon: float
    rotary_base: float
    rotary_factor: float
    interleaved: bool

    @property
    def normalizes_heads(self) -> bool:  # noqa: D102  # see the class
        return self.name == "qwen3"

    def row_order(self, tensor: str, rows: int) -> NDArray[np.intp] | None:
        """Return where each row of queries and keys stands in the file, or nothing where they are in order.

        Args:
            tensor: Its name, without `.weight` or `.bias`.
            rows: How many it has.
        """
        if not self.interleaved or not tensor.endswith(("attn_q", "attn_k")):
            return None
        halves = np.arange(rows, dtype=np.intp).reshape(-1, self.head_size // 2, 2)
        return halves.swapaxes(1, 2).ravel()

    def rotary_tables(self, divisors: NDArray[np.float32] | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return cosines and sines `[window, head size / 2]` (rotary embedding, arXiv:2104.09864).

        Args:
            divisors: `[head size / 2]`: what each frequency is divided by, as Llama 3 stretches its window.

        Raises:
            NotImportable: A divisor is not above 0.
        """
        if divisors is not None and not (divisors > 0).all():
            raise NotImportable("The tensor `rope_freqs.weight` holds values that are not above 0.")
        frequencies = self.rotary_base ** (-np.arange(0, self.head_size, 2, dtype=np.float64) / self.head_size)
        if divisors is not None:
            frequencies /= divisors
        angles = np.arange(self.window)[:, None] * (frequencies / self.rotary_factor)
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def read_architecture(source: GgufSource) -> Architecture:
    """Read sizes and constants.

    Raises:
        NotImportable: The family is not supported, or the file asks for something that this one does not have.
    """
    name = source.require("general.architecture", str)
    if name not in _ARCHITECTURES:
        known = ", ".join(_ARCHITECTURES)
        raise NotImportable(f"The architecture `{name}` (key `general.architecture`) is not supported; {known} are.")
    heads, kv_heads = _heads(source, name)
    hidden = source.require(f"{name}.embedding_length", int)
    head_size = source.get(f"{name}.attention.key_length", hidden // heads)
    if head_size < 1 or head_size % 2:
        raise NotImportable(f"A head has {head_size} values (key `{name}.attention.key_length`): not an even number.")
    found = Architecture(
        name=name,
        layers=source.require(f"{name}.block_count", int),
        window=_window(source, name),
        hidden=hidden,
        feed_forward=source.require(f"{name}.feed_forward_length", int),
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        epsilon=_positive(f"{name}.attention.layer_norm_rms_epsilon", source.require, float),
        rotary_base=_positive(f"{name}.rope.freq_base", source.get, 10_000.0),
        rotary_factor=_rotary_factor(source, name),
        interleaved=name == "llama",
    )
    _require_equal(source, f"{name}.attention.value_length", head_size)
    _require_equal(source, f"{name}.rope.dimension_count", head_size)
    for key in ("expert_count", "expert_used_count"):
        _require_equal(source, f"{name}.{key}", 0)
    for key in _WITHOUT_MEANING:
        source.ignore(f"{name}.{key}")
    unread = source.unread_keys(f"{name}.")
    if unread:
        raise NotImportable(f"The key `{unread[0]}` is not supported: the model may compute something else with it.")
    return found


def _heads(source: GgufSource, name: str) -> tuple[int, int]:
    """Return how many heads ask, and how many have keys and values."""
    heads = source.require(f"{name}.attention.head_count", int)
    kv_heads = source.get(f"{name}.attention.head_count_kv", heads)
    if not 0 < kv_heads <= heads or heads % kv_heads:
        raise NotImportable(
            f"The keys `{name}.attention.head_count` and `{name}.attention.head_count_kv` are {heads} and {kv_heads}: "
            "the first must be a multiple of the second."
        )
    return heads, kv_heads


def _window(source: GgufSource, name: str) -> int:
    """Return the most tokens of prompt and answer: within a sliding window, attention is what it is without one."""
    whole = source.require(f"{name}.context_length", int)
    sliding = source.get(f"{name}.attention.sliding_window", 0)
    window = min(whole, sliding) if sliding else whole
    if not _SMALLEST_WINDOW <= window <= _LARGEST_WINDOW:
        raise NotImportable(
            f"The window is {window} (keys `{name}.context_length` and `{name}.attention.sliding_window`); "
            f"{_SMALLEST_WINDOW} to {_LARGEST_WINDOW} are supported."
        )
    return window


def _rotary_factor(source: GgufSource, name: str) -> float:
    scaling = source.get(f"{name}.rope.scaling.type", "none")
    if scaling not in _ROTARY_SCALINGS:
        raise NotImportable(
            f"The rotary scaling `{scaling}` (key `{name}.rope.scaling.type`) is not supported; none and linear are."
        )
    factor = _positive(f"{name}.rope.scaling.factor", source.get, 1.0)
    return factor if scaling == "linear" else 1.0


def _positive(key: str, read: Callable[[str, _Asked], float], asked: _Asked) -> float:
    found = read(key, asked)
    if not 0 < found < math.inf:
        raise NotImportable(f"The key `{key}` is {found}; only a number above 0 is supported.")
    return found


def _require_equal(source: GgufSource, key: str, expected: int) -> None:
    found = source.get(key, expected)
    if found != expected:
        raise NotImportable(f"The key `{key}` is {found}; only {expected} is supported here.")

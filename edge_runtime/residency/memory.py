"""What a model will take in memory, told before it is loaded, and what this process may still take."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.generation.genai_config import DecoderConfig, ModelConfig, read_genai_config
from edge_runtime.generation.warm_up import CHUNKS
from runtime_server.cpus import cgroup_folders
from serving.start import StartRefused

_MEBIBYTE = 1 << 20
_FLOAT_BYTES = 4
# ONNX Runtime lays weights out anew for its kernels, graph by graph, and keeps both where the file is mapped. Measured
# on models of 90 to 540 MB: 0.8 to 1.25 times the file for each graph, and 30 to 40 MB for two sessions.
_WEIGHTS_GROWTH = 1.25
_SESSIONS_BYTES = 40 * _MEBIBYTE
# Floats of a token that are alive at once while a prompt is read, in hidden sizes: fused projections, gate and up.
_LIVE_HIDDENS = 16
_AVAILABLE = re.compile(r"^MemAvailable: +([0-9]+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes of one loaded model.

    Attributes:
        weights: As ONNX Runtime holds them.
        cache: Keys and values of all slots, filled to the window.
        logits: Of one run.
        activations: Of the largest chunk of a prompt.
    """

    weights: int
    cache: int
    logits: int
    activations: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.logits + self.activations

    def __str__(self) -> str:
        parts = (
            (self.weights, "weights"),
            (self.cache, "keys and values"),
            (self.logits, "logits"),
            (self.activations, "activations"),
        )
        return f"{_mib(self.total)} ({', '.join(f'{_mib(size)} {what}' for size, what in parts)})"


class TooLittleMemory(StartRefused):
    """A model does not fit in what is left. The message has the numbers."""

    def __init__(self, need: MemoryNeed, available: int) -> None:
        super().__init__(
            f"The model needs {need}, and {_mib(available)} are available. Fewer slots or a smaller context take less."
        )


def memory_need(folder: Path, *, slots: int, context: int) -> MemoryNeed:
    """Return what a model will take.

    Args:
        folder: In onnxruntime-genai's format.
        slots: Requests that run at once.
        context: Most tokens of one slot; the model's own window caps it.

    Raises:
        ModelUnsupported: The folder does not describe a decoder.
    """
    config = read_genai_config(folder)
    file = sum(path.stat().st_size for path in folder.iterdir() if path.suffix == ".data")
    file = file or (folder / config.decoder.filename).stat().st_size  # a small graph holds its weights itself
    return need_of(config, file, slots=slots, context=context)


def need_of(config: ModelConfig, weights_bytes: int, *, slots: int, context: int) -> MemoryNeed:
    """Return what a model of this description will take.

    Args:
        config: Its `genai_config.json`.
        weights_bytes: Of its file of weights.
        slots: Requests that run at once.
        context: Most tokens of one slot; the model's own window caps it.
    """
    decoder = config.decoder
    window = min(config.context_length, context)
    chunk = min(CHUNKS[-1], window)
    graphs = 1 if decoder.prefill_filename is None else 2
    chooses = "logits_indices" in decoder.inputs.model_fields_set
    hidden = decoder.hidden_size or decoder.head_size * decoder.num_key_value_heads
    heads = decoder.num_attention_heads or decoder.num_key_value_heads
    return MemoryNeed(
        weights=int(graphs * max(weights_bytes, decoder.bytes_per_token or 0) * _WEIGHTS_GROWTH) + _SESSIONS_BYTES,
        cache=cache_bytes(decoder, slots=slots, window=window),
        logits=max(slots, 1 if chooses else chunk) * config.vocab_size * _FLOAT_BYTES,
        activations=chunk * (_LIVE_HIDDENS * hidden + heads * window) * _FLOAT_BYTES,
    )


def cache_bytes(decoder: DecoderConfig, *, slots: int, window: int, item_bytes: int = _FLOAT_BYTES) -> int:
    """Return what keys and values take: `[layers, 2, slots, heads, window, head size]`."""
    cells = decoder.num_hidden_layers * 2 * decoder.num_key_value_heads * decoder.head_size
    return cells * slots * window * item_bytes


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return what this process can still take: the machine's and its cgroups' rest, whichever is less.

    Args:
        root: Where `/proc` and `/sys` stand.

    Returns:
        `None` where nobody tells.
    """
    limits = [rest for folder in cgroup_folders(root) if (rest := _rest_of_cgroup(folder)) is not None]
    try:
        found = _AVAILABLE.search((root / "proc/meminfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    if found is not None:
        limits.append(int(found[1]) * 1024)
    return max(0, min(limits)) if limits else None


def give_back_freed() -> None:
    """Give memory that was freed back to the system: the C library keeps what lies between what is in use.

    Where it has no `malloc_trim`, as musl and macOS, nothing is done.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _rest_of_cgroup(folder: Path) -> int | None:
    """Return `memory.max` less what is used; cached files that nobody uses count as free."""
    try:
        limit = (folder / "memory.max").read_text(encoding="utf-8").strip()
        used = int((folder / "memory.current").read_text(encoding="utf-8"))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="utf-8").splitlines())
        return None if limit == "max" else int(limit) - used + int(stat.get("inactive_file", 0))
    except (OSError, ValueError):
        return None


def _mib(size: int) -> str:
    return f"{size / _MEBIBYTE:.0f} MiB"

"""The model's graph over a key/value cache in slots: the one place that talks to ONNX Runtime.

The graph is one that onnxruntime-genai's model builder makes: `GroupQueryAttention` over a cache whose past and
present are the same memory. Two shapes of run are possible with it: several tokens of one sequence (prefill), and one
token each of several sequences whose lengths differ (decode).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from edge_runtime.generation.errors import GraphRunFailed
from edge_runtime.generation.genai_config import DecoderConfig, ModelConfig
from edge_runtime.generation.kv_cache import KeyValueCache
from edge_runtime.generation.sampler import Logits
from runtime_server.model_manifest import ModelUnsupported

# ONNX Runtime's exceptions have no base class of their own.
_LOAD_ERRORS = (
    ort_errors.EPFail,
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
)
_FLOATS: dict[str, type[np.floating[Any]]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class Graph(Protocol):
    """What the scheduler needs of a model. Every method is for one thread only."""

    slots: int

    def prefill(self, slot: int, tokens: Sequence[int], length: int) -> Logits:
        """Read tokens into a slot that holds `length` already; return the logits after the last, `[vocabulary]`.

        Raises:
            GraphRunFailed: The slot's content from `length` on is undefined.
        """
        ...

    def decode(self, tokens: Sequence[int], lengths: Sequence[int]) -> Logits:
        """Read one token into each of the slots 0, 1, …; return `[rows, vocabulary]`, valid until the next run.

        Raises:
            GraphRunFailed: The content of these slots from `lengths` on is undefined.
        """
        ...

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one slot over another."""
        ...


class DecoderGraph:
    """A `Graph` on ONNX Runtime's CPU provider."""

    def __init__(self, folder: Path, config: ModelConfig, *, slots: int, window: int, threads: int) -> None:
        """Load the graph and reserve address space for the cache; memory is committed as tokens fill it.

        Raises:
            ModelUnsupported: The file is not a graph that this class can run.
        """
        self.slots = slots
        self._config = config.decoder
        self._session = _load(folder / self._config.filename, threads)
        self.provider: str = self._session.get_providers()[0]
        self._has_positions = _check_names(self._session, self._config)
        types = {value.name: value.type for value in (*self._session.get_inputs(), *self._session.get_outputs())}
        cache_type = _float_type(types, self._config.inputs.past_key_names % 0)
        decoder = self._config
        self._cache = KeyValueCache(
            layers=decoder.num_hidden_layers,
            slots=slots,
            heads=decoder.num_key_value_heads,
            window=window,
            head_size=decoder.head_size,
            dtype=cache_type,
        )
        self._vocabulary = config.vocab_size
        self._logits_type = _float_type(types, decoder.outputs.logits)
        self._prunes_logits = _prunes_logits(self._session, decoder.outputs.logits)
        self._logits = np.empty(0, self._logits_type)
        self._bindings: dict[tuple[int, int], ort.IOBinding] = {}

    def prefill(self, slot: int, tokens: Sequence[int], length: int) -> Logits:  # noqa: D102 - see `Graph`
        ids = np.array([tokens], np.int64)
        logits: Logits = self._run(slot, ids, np.array([length], np.int64))[0]
        return logits

    def decode(self, tokens: Sequence[int], lengths: Sequence[int]) -> Logits:  # noqa: D102 - see `Graph`
        ids = np.array(tokens, np.int64)[:, None]
        return self._run(0, ids, np.array(lengths, np.int64))

    def move(self, source: int, target: int, length: int) -> None:  # noqa: D102 - see `Graph`
        self._cache.copy(source, target, length)

    def _run(self, first: int, ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> Logits:
        """Feed `ids` `[rows, tokens]` to the slots from `first` on, which hold `lengths` `[rows]` tokens before."""
        rows, count = ids.shape
        binding = self._binding(first, first + rows)
        totals = lengths + count
        names = self._config.inputs
        binding.bind_cpu_input(names.input_ids, ids)
        # Right-padded: row i has as many ones as it has tokens, from which the graph derives its length.
        binding.bind_cpu_input(names.attention_mask, (np.arange(totals.max()) < totals[:, None]).astype(np.int64))
        if self._has_positions:
            binding.bind_cpu_input(names.position_ids, lengths[:, None] + np.arange(count))
        logits = self._logits_buffer(rows, 1 if self._prunes_logits else count)
        binding.bind_ortvalue_output(self._config.outputs.logits, ort.OrtValue.ortvalue_from_numpy(logits))
        try:
            self._session.run_with_iobinding(binding)
        except RuntimeError as error:  # what a run with bindings raises, whatever went wrong in it
            raise GraphRunFailed(str(error)) from error
        last: Logits = logits[:, -1].astype(np.float32, copy=False)
        return last

    def _logits_buffer(self, rows: int, tokens: int) -> NDArray[Any]:
        size = rows * tokens * self._vocabulary
        if size > self._logits.size:
            self._logits = np.empty(size, self._logits_type)
        return self._logits[:size].reshape(rows, tokens, self._vocabulary)

    def _binding(self, first: int, last: int) -> ort.IOBinding:
        """Return the binding of slots `first` to `last - 1`; naming four tensors a layer is worth doing once."""
        binding = self._bindings.get((first, last))
        if binding is None:
            binding = self._session.io_binding()
            inputs, outputs = self._config.inputs, self._config.outputs
            for layer in range(self._config.num_hidden_layers):
                for cells, past, present in (
                    (self._cache.keys, inputs.past_key_names, outputs.present_key_names),
                    (self._cache.values, inputs.past_value_names, outputs.present_value_names),
                ):
                    view = ort.OrtValue.ortvalue_from_numpy(cells(layer, first, last))
                    binding.bind_ortvalue_input(past % layer, view)
                    binding.bind_ortvalue_output(present % layer, view)
            self._bindings[first, last] = binding
        return binding


def _load(path: Path, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised, and logged by whoever catches them
    # Waiting for work by spinning makes single-stream decode 1.4 times as fast (8.2 against 11.8 ms) and burns cores
    # that others want. 50 µs is as fast as a millisecond, burns less, and spinning ends with the run.
    options.add_session_config_entry("session.intra_op.spin_duration_us", "50")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except _LOAD_ERRORS as error:
        raise ModelUnsupported(f"{path} cannot be loaded: {error}") from error


def _check_names(session: ort.InferenceSession, decoder: DecoderConfig) -> bool:
    """Compare the graph with its description; return whether it wants positions.

    Raises:
        ModelUnsupported: It asks for something that we do not feed, or lacks something that we read.
    """
    layers = range(decoder.num_hidden_layers)
    names = decoder.inputs
    pasts = {pattern % layer for layer in layers for pattern in (names.past_key_names, names.past_value_names)}
    asked = {value.name for value in session.get_inputs()}
    fed = {names.input_ids, names.attention_mask, *pasts}
    if asked - {names.position_ids} != fed:
        odd = ", ".join(sorted(asked - {names.position_ids} ^ fed))
        raise ModelUnsupported(f"The graph's inputs are not those of a decoder with {len(layers)} layers: {odd}.")
    outputs = decoder.outputs
    presents = {
        pattern % layer for layer in layers for pattern in (outputs.present_key_names, outputs.present_value_names)
    }
    missing = {outputs.logits, *presents} - {value.name for value in session.get_outputs()}
    if missing:
        raise ModelUnsupported(f"The graph lacks the outputs {', '.join(sorted(missing))}.")
    return names.position_ids in asked


def _float_type(types: dict[str, str], name: str) -> type[np.floating[Any]]:
    found = _FLOATS.get(types[name])
    if found is None:
        raise ModelUnsupported(f"The graph's `{name}` is {types[name]}; float32 and float16 can be run.")
    return found


def _prunes_logits(session: ort.InferenceSession, name: str) -> bool:
    """Say whether the graph returns logits of the last token alone, by the shape `[rows, tokens, vocabulary]`."""
    shape = next(value.shape for value in session.get_outputs() if value.name == name)
    return len(shape) == 3 and shape[1] == 1

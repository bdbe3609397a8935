"""Runs of one graph on the slots of a cache, in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edge_runtime.generation.errors import GraphInterrupted, GraphRunFailed
from edge_runtime.generation.genai_config import ModelConfig
from edge_runtime.generation.interruption import Interruption
from edge_runtime.generation.kv_cache import KeyValueCache
from edge_runtime.generation.loaded_graph import LoadedGraph


class BoundGraph:
    """A graph whose past and present are a cache's own memory. For one thread only."""

    def __init__(
        self, graph: LoadedGraph, config: ModelConfig, cache: KeyValueCache, interruption: Interruption
    ) -> None:
        """Bind nothing yet: that is done for each run of slots when it is first used."""
        self._graph = graph
        self._config = config.decoder
        self._cache = cache
        self._interruption = interruption
        self._vocabulary = config.vocab_size
        self._logits = np.empty(0, graph.logits_type)
        self._bindings: dict[tuple[int, int], ort.IOBinding] = {}

    def run(
        self, first: int, ids: NDArray[np.int64], lengths: NDArray[np.int64], wanted: Sequence[int]
    ) -> NDArray[np.float32]:
        """Feed tokens to slots; return logits, `[rows, wanted, vocabulary]`, valid until the next run.

        Args:
            first: The slot of the first row; the others follow it.
            ids: `[rows, tokens]`.
            lengths: `[rows]`: tokens that the slots hold already.
            wanted: Places in a row of `ids`, in order, after which the logits are asked for.

        Raises:
            GraphRunFailed: What the slots hold from `lengths` on is undefined.
            GraphInterrupted: As above, since the run was told to end.
        """
        rows, count = ids.shape
        if self._graph.prunes_logits and any(place != count - 1 for place in wanted):
            raise GraphRunFailed("The graph gives the logits after the last token alone.")
        binding = self._binding(first, first + rows)
        totals = lengths + count
        names = self._config.inputs
        binding.bind_cpu_input(names.input_ids, ids)
        # Right-padded: row i has as many ones as it has tokens, from which the graph derives its length.
        binding.bind_cpu_input(names.attention_mask, (np.arange(totals.max()) < totals[:, None]).astype(np.int64))
        if self._graph.wants_positions:
            binding.bind_cpu_input(names.position_ids, lengths[:, None] + np.arange(count))
        if self._graph.chooses_logits:
            binding.bind_cpu_input(names.logits_indices, np.array(wanted, np.int64))
        logits = self._logits_buffer(rows, self._returned(count, len(wanted)))
        binding.bind_ortvalue_output(self._config.outputs.logits, ort.OrtValue.ortvalue_from_numpy(logits))
        try:
            self._graph.session.run_with_iobinding(binding, self._interruption.options())
        except RuntimeError as error:  # what a run with bindings raises, whatever went wrong in it
            if self._interruption.is_set:
                raise GraphInterrupted from error
            raise GraphRunFailed(str(error)) from error
        if not self._graph.chooses_logits:
            logits = logits[:, [place - count for place in wanted]] if wanted else logits[:, :0]
        found: NDArray[np.float32] = logits.astype(np.float32, copy=False)
        return found

    def _returned(self, count: int, wanted: int) -> int:
        """Return for how many places the graph gives logits."""
        if self._graph.chooses_logits:
            return wanted
        return 1 if self._graph.prunes_logits else count

    def _logits_buffer(self, rows: int, tokens: int) -> NDArray[Any]:
        size = rows * tokens * self._vocabulary
        if size > self._logits.size:
            self._logits = np.empty(size, self._graph.logits_type)
        return self._logits[:size].reshape(rows, tokens, self._vocabulary)

    def _binding(self, first: int, last: int) -> ort.IOBinding:
        """Return the binding of slots `first` to `last - 1`; naming four tensors a layer is worth doing once."""
        binding = self._bindings.get((first, last))
        if binding is None:
            binding = self._graph.session.io_binding()
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

"""The model over a key/value cache in slots: the one place that talks to ONNX Runtime, with its two neighbours.

A graph has `GroupQueryAttention` over a cache whose past and present are the same memory. Two shapes of run are
possible with it: several tokens of one sequence (prefill), and one token each of several sequences whose lengths
differ (decode). A folder may hold a graph for each; both work on the same cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_runtime.generation.bound_graph import BoundGraph
from edge_runtime.generation.genai_config import ModelConfig
from edge_runtime.generation.interruption import Interruption
from edge_runtime.generation.kv_cache import KeyValueCache
from edge_runtime.generation.loaded_graph import load_graph
from edge_runtime.generation.prefix_store import BlockShape
from edge_runtime.generation.slots import Cells
from runtime_server.choosing.sampler import Logits
from runtime_server.model_manifest import ModelUnsupported

# The places whose logits a step of decoding wants: it feeds one token to each row.
_ONLY = (0,)
# Before the slots stands a row of the cache for company, of which nothing is kept.
_COMPANY, _SLOTS = 0, 1
_ANY_TOKEN = 1


class Graph(Cells, Protocol):
    """What the scheduler needs of a model. Every method is for one thread only.

    Attributes:
        can_verify: Whether `verify` works: not where a graph returns the logits of its last token alone.
    """

    can_verify: bool

    def read(self, slot: int, tokens: Sequence[int], length: int, wanted: Sequence[int]) -> Logits:
        """Read tokens into a slot that holds `length` already.

        Args:
            slot: Any of them.
            tokens: What is read.
            length: What the slot holds.
            wanted: Places among `tokens`, in order, after which the logits are asked for; none costs nothing.

        Returns:
            `[wanted, vocabulary]`, valid until the next run.

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

    def verify(self, tokens: Sequence[int], length: int) -> Logits:
        """Read tokens into slot 0 as decoding them one by one would; return the logits after each of them.

        Raises:
            GraphRunFailed: The slot's content from `length` on is undefined.
        """
        ...

    def keys_and_values(self, slot: int, begin: int, end: int) -> NDArray[Any]:
        """Return a copy of what some tokens of a slot left in the cache."""
        ...

    def put_keys_and_values(self, slot: int, begin: int, cells: NDArray[Any]) -> None:
        """Put back what `keys_and_values` returned."""
        ...


class DecoderGraph:
    """A `Graph` on ONNX Runtime's CPU provider.

    Some CPUs have a kernel for products of one row that rounds otherwise than the one for several, and a request would
    be told something else when it is alone. There a single row is decoded in company, which takes no longer.
    """

    def __init__(
        self,
        folder: Path,
        config: ModelConfig,
        *,
        slots: int,
        window: int,
        threads: int,
        interruption: Interruption | None = None,
    ) -> None:
        """Load the graph, or both, and reserve address space for the cache; memory is committed as tokens fill it.

        Raises:
            ModelUnsupported: A file is not a graph that this class can run.
        """
        self.slots = slots
        interruption = interruption or Interruption()
        decoder = config.decoder
        decoding = load_graph(folder / decoder.filename, decoder, threads)
        self.provider = decoding.provider
        self.can_verify = self.tells_prompt = decoding.tells_all_places
        self._cache = KeyValueCache(
            layers=decoder.num_hidden_layers,
            slots=_SLOTS + slots,
            heads=decoder.num_key_value_heads,
            window=window,
            head_size=decoder.head_size,
            dtype=decoding.cache_type,
        )
        self.block_shape = BlockShape(
            decoder.num_hidden_layers, decoder.num_key_value_heads, decoder.head_size, np.dtype(decoding.cache_type)
        )
        self._needs_company: bool | None = None
        self._decoding = self._reading = BoundGraph(decoding, config, self._cache, interruption)
        if decoder.prefill_filename is not None:
            path = folder / decoder.prefill_filename
            reading = load_graph(path, decoder, threads)
            if reading.cache_type is not decoding.cache_type:
                raise ModelUnsupported(f"{path} keeps another type of number in its cache than {decoder.filename}.")
            self.tells_prompt = reading.tells_all_places
            self._reading = BoundGraph(reading, config, self._cache, interruption)

    def prefill(self, slot: int, tokens: Sequence[int], length: int) -> Logits:
        """Read tokens as `read` does; return the logits after the last of them, `[vocabulary]`."""
        last: Logits = self.read(slot, tokens, length, (len(tokens) - 1,))[0]
        return last

    def read(self, slot: int, tokens: Sequence[int], length: int, wanted: Sequence[int]) -> Logits:  # noqa: D102  # see `Graph`
        ids = np.array([tokens], np.int64)
        logits: Logits = self._reading.run(_SLOTS + slot, ids, np.array([length], np.int64), wanted)[0]
        return logits

    def decode(self, tokens: Sequence[int], lengths: Sequence[int]) -> Logits:  # noqa: D102  # see `Graph`
        if len(tokens) == 1 and self._rounds_alone(lengths[0]):
            return self._decode(_COMPANY, [_ANY_TOKEN, *tokens], [0, *lengths])[1:]
        return self._decode(_SLOTS, tokens, lengths)

    def verify(self, tokens: Sequence[int], length: int) -> Logits:  # noqa: D102  # see `Graph`
        ids = np.array([tokens], np.int64)
        logits: Logits = self._decoding.run(_SLOTS, ids, np.array([length], np.int64), range(len(tokens)))[0]
        return logits

    def copy(self, source: int, target: int, length: int) -> None:  # noqa: D102  # see `Cells`
        self._cache.copy(_SLOTS + source, _SLOTS + target, length)

    def exchange(self, one: int, its_length: int, other: int, other_length: int) -> None:  # noqa: D102  # see `Cells`
        self._cache.exchange(_SLOTS + one, its_length, _SLOTS + other, other_length)

    def release(self, slot: int) -> None:  # noqa: D102  # see `Cells`
        self._cache.release(_SLOTS + slot)

    def keys_and_values(self, slot: int, begin: int, end: int) -> NDArray[Any]:  # noqa: D102  # see `Graph`
        return self._cache.read(_SLOTS + slot, begin, end)

    def put_keys_and_values(self, slot: int, begin: int, cells: NDArray[Any]) -> None:  # noqa: D102  # see `Graph`
        self._cache.write(_SLOTS + slot, begin, cells)

    def _decode(self, first: int, tokens: Sequence[int], lengths: Sequence[int]) -> Logits:
        ids = np.array(tokens, np.int64)[:, None]
        logits: Logits = self._decoding.run(first, ids, np.array(lengths, np.int64), _ONLY)[:, 0]
        return logits

    def _rounds_alone(self, length: int) -> bool:
        """Whether a row alone gives other logits than beside another: asked once, at the end of what slot 0 holds."""
        if self._needs_company is None:
            alone = self._decode(_COMPANY, [_ANY_TOKEN], [0]).copy()
            beside = self._decode(_COMPANY, [_ANY_TOKEN, _ANY_TOKEN], [0, length])
            self._needs_company = not np.array_equal(alone[0], beside[0])
        return self._needs_company

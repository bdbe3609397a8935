"""One graph file in ONNX Runtime: loaded, and compared with what its folder says of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from edge_runtime.generation.genai_config import DecoderConfig
from edge_runtime.providers.cpu import open_on_cpu
from runtime_server.model_manifest import ModelUnsupported

_FLOATS: dict[str, type[np.floating[Any]]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """A session and what it wants.

    Attributes:
        session: Of the CPU provider.
        provider: The one that runs it, told by ONNX Runtime.
        wants_positions: Whether it takes the position of each token.
        chooses_logits: Whether it takes the indices of the tokens whose logits are asked for.
        prunes_logits: Whether it returns the logits of the last token alone.
        cache_type: Of keys and values.
        logits_type: Of logits.
    """

    session: ort.InferenceSession
    provider: str
    wants_positions: bool
    chooses_logits: bool
    prunes_logits: bool
    cache_type: type[np.floating[Any]]
    logits_type: type[np.floating[Any]]

    @property
    def tells_all_places(self) -> bool:
        """Whether logits can be had after any token that is fed."""
        return self.chooses_logits or not self.prunes_logits


def load_graph(path: Path, decoder: DecoderConfig, threads: int) -> LoadedGraph:
    """Load a graph.

    Raises:
        ModelUnsupported: The file is not a graph that can be run as `decoder` describes it.
    """
    session = open_on_cpu(path, threads)
    asked = _check_names(session, decoder)
    types = {value.name: value.type for value in (*session.get_inputs(), *session.get_outputs())}
    return LoadedGraph(
        session=session,
        provider=session.get_providers()[0],
        wants_positions=decoder.inputs.position_ids in asked,
        chooses_logits=decoder.inputs.logits_indices in asked,
        prunes_logits=_prunes_logits(session, decoder.outputs.logits),
        cache_type=_float_type(types, decoder.inputs.past_key_names % 0),
        logits_type=_float_type(types, decoder.outputs.logits),
    )


def _check_names(session: ort.InferenceSession, decoder: DecoderConfig) -> set[str]:
    """Compare the graph with its description; return the names of its inputs.

    Raises:
        ModelUnsupported: It asks for something that we do not feed, or lacks something that we read.
    """
    layers = range(decoder.num_hidden_layers)
    names = decoder.inputs
    pasts = {pattern % layer for layer in layers for pattern in (names.past_key_names, names.past_value_names)}
    asked = {value.name for value in session.get_inputs()}
    fed = {names.input_ids, names.attention_mask, *pasts}
    optional = {names.position_ids, names.logits_indices}
    if asked - optional != fed:
        odd = ", ".join(sorted(asked - optional ^ fed))
        raise ModelUnsupported(f"The graph's inputs are not those of a decoder with {len(layers)} layers: {odd}.")
    outputs = decoder.outputs
    presents = {
        pattern % layer for layer in layers for pattern in (outputs.present_key_names, outputs.present_value_names)
    }
    missing = {outputs.logits, *presents} - {value.name for value in session.get_outputs()}
    if missing:
        raise ModelUnsupported(f"The graph lacks the outputs {', '.join(sorted(missing))}.")
    return asked


def _float_type(types: dict[str, str], name: str) -> type[np.floating[Any]]:
    found = _FLOATS.get(types[name])
    if found is None:
        raise ModelUnsupported(f"The graph's `{name}` is {types[name]}; float32 and float16 can be run.")
    return found


def _prunes_logits(session: ort.InferenceSession, name: str) -> bool:
    """Say whether the graph returns logits of the last token alone, by the shape `[rows, tokens, vocabulary]`."""
    shape = next(value.shape for value in session.get_outputs() if value.name == name)
    return len(shape) == 3 and shape[1] == 1

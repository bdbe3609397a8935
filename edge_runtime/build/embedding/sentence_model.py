"""What a folder of sentence-transformers says of its model: sizes, pooling, window. What would change it is refused.

Format: https://sbert.net/docs/package_reference/sentence_transformer/models.html, `modules.json` and what it names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.build.errors import NotImportable

_MODULES = ("Transformer", "Pooling", "Normalize")
# What changes the graph, and the one value that this one is for.
_FIXED = (("model_type", "bert"), ("hidden_act", "gelu"), ("position_embedding_type", "absolute"))


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """A BERT encoder whose last hidden states are averaged over the tokens and scaled to length 1.

    Attributes:
        window: Most tokens of an input, special ones among them.
        positions: Rows of the position embedding.
        epsilon: Of each layer normalization.
    """

    layers: int
    heads: int
    hidden: int
    inner: int
    vocabulary: int
    positions: int
    epsilon: float
    window: int


def read_sentence_model(folder: Path) -> SentenceModel:
    """Read the folder's description.

    Raises:
        NotImportable: A file is missing or cannot be read, or describes another kind of model.
    """
    config = _read(folder, "config.json")
    for key, value in _FIXED:
        if config.get(key, value) != value:
            raise NotImportable(f"config.json: `{key}` is {config[key]!r}; only {value!r} can be built.")
    modules = _read(folder, "modules.json")
    kinds = tuple(str(each.get("type")).rpartition(".")[2] for each in modules) if isinstance(modules, list) else ()
    if kinds != _MODULES:
        raise NotImportable(f"modules.json lists {', '.join(kinds) or 'nothing'}; only {', '.join(_MODULES)} is built.")
    pooling = _read(folder, f"{modules[1]['path']}/config.json")
    modes = {key for key, value in pooling.items() if key.startswith("pooling_mode_") and value}
    if modes != {"pooling_mode_mean_tokens"}:
        raise NotImportable(f"1_Pooling/config.json pools by {', '.join(sorted(modes))}; only the mean can be built.")
    try:
        return SentenceModel(
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            hidden=int(config["hidden_size"]),
            inner=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            positions=int(config["max_position_embeddings"]),
            epsilon=float(config["layer_norm_eps"]),
            window=int(_read(folder, "sentence_bert_config.json")["max_seq_length"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NotImportable(f"The model's description lacks a number: {error}.") from None


def _read(folder: Path, name: str) -> Any:
    try:
        found = json.loads((folder / name).read_bytes())
    except (OSError, ValueError):
        raise NotImportable(f"{name} is missing or is no JSON.") from None
    if not isinstance(found, (Mapping, list)):
        raise NotImportable(f"{name} is no description.")
    return found

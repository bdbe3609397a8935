"""A model folder in onnxruntime-genai's format, out of a Hugging Face folder of the Llama family."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.graphs import TokenIds, write_graphs
from edge_runtime.build.huggingface.config import understand
from edge_runtime.build.huggingface.lora import Adapter
from edge_runtime.build.huggingface.safetensors_folder import SafetensorsFolder
from edge_runtime.build.huggingface.tensors import HuggingfaceTensors, Precision
from runtime_server.chat_model import load_chat_model
from runtime_server.model_folder import ModelFolderUnusable, end_token_ids

_TALK = ("tokenizer_config.json", "chat_template.jinja", "generation_config.json")


def write_folder(
    source: Path, config: Mapping[str, Any], adapter: Path | None, precision: Precision, folder: Path
) -> int:
    """Write graphs, weights, configuration, tokenizer and chat template into an empty folder; return the window.

    Args:
        source: The Hugging Face folder.
        config: Its `config.json`.
        adapter: A folder with an adapter to merge.
        precision: How weights are kept.
        folder: Where to write.

    Raises:
        NotImportable: The message names the file, key or tensor that stands in the way.
    """
    understood = understand(config)
    copy_talk(source, folder)
    ends = [*_ids(config.get("eos_token_id")), *sorted(end_token_ids(folder))]
    names = ("bos_token_id", "pad_token_id")
    special = {name: id_ for name in names for id_ in _ids(config.get(name))[:1]}
    tokens = TokenIds(understood.vocabulary, special, tuple(dict.fromkeys(ends)))
    merged = None if adapter is None else Adapter(adapter)
    tensors = HuggingfaceTensors(SafetensorsFolder(source), understood, merged, precision)
    write_graphs(tensors, understood.architecture, tokens, folder)
    if merged is not None:
        merged.require_used()
    require_talk(folder, rows=understood.vocabulary)
    return understood.architecture.window


def copy_talk(source: Path, folder: Path) -> None:
    """Copy what says how to talk to the model.

    Raises:
        NotImportable: There is no `tokenizer.json`.
    """
    if not (source / "tokenizer.json").is_file():
        raise NotImportable(
            f"{source} lacks tokenizer.json. Where it has tokenizer.model or vocab.json alone, load and save the "
            "tokenizer once with transformers, which writes it."
        )
    for name in ("tokenizer.json", *(name for name in _TALK if (source / name).is_file())):
        shutil.copyfile(source / name, folder / name)


def require_talk(folder: Path, *, rows: int) -> None:
    """Look whether a complete folder can be talked to.

    Raises:
        NotImportable: Tokenizer, chat template or the end of an answer is missing or cannot be used.
    """
    try:
        load_chat_model(folder, folder.name)
    except ModelFolderUnusable as error:
        raise NotImportable(str(error)) from None
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size(with_added_tokens=True)
    if tokens > rows:
        raise NotImportable(f"tokenizer.json has {tokens} tokens where the model has rows for {rows}.")


def _ids(value: Any) -> list[int]:
    return [id_ for id_ in (value if isinstance(value, list) else [value]) if type(id_) is int]

"""A model folder in onnxruntime-genai's format, out of a GGUF file."""

from __future__ import annotations

from pathlib import Path

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.architecture import read_architecture
from edge_runtime.build.gguf.graphs import TokenIds, write_graphs, write_json
from edge_runtime.build.gguf.source import GgufSource
from edge_runtime.build.gguf.tensors import GgufTensors
from edge_runtime.build.gguf.tokenizer import build_tokenizer
from edge_runtime.build.gguf.vocabulary import Vocabulary, read_vocabulary

HOW = "GGUF blocks carried over, second form"  # changes whenever the same file would give other bytes
_TEMPLATE_KEY = "tokenizer.chat_template"


def write_folder(gguf: Path, folder: Path) -> int:
    """Write graphs, weights, configuration, tokenizer and chat template into an empty folder; return the window.

    Raises:
        NotImportable: The file cannot be imported without loss.
    """
    source = GgufSource(gguf)
    architecture = read_architecture(source)
    vocabulary = write_tokenizer(source, folder, window=architecture.window)
    size = len(vocabulary.texts)
    if source.rows_of("token_embd.weight") != size:
        raise NotImportable(
            f"The tensor `token_embd.weight` has {source.rows_of('token_embd.weight')} rows for {size} tokens "
            "(key `tokenizer.ggml.tokens`)."
        )
    names = {"bos_token_id": "bos_token", "pad_token_id": "pad_token"}
    special = {key: vocabulary.names[name] for key, name in names.items() if name in vocabulary.names}
    write_graphs(GgufTensors(source), architecture, TokenIds(size, special, vocabulary.ends), folder)
    return architecture.window


def write_tokenizer(source: GgufSource, folder: Path, *, window: int) -> Vocabulary:
    """Write what a folder of any format says about talking to the model; return its vocabulary.

    Raises:
        NotImportable: A key is missing or not supported.
    """
    vocabulary = read_vocabulary(source)
    tokenizer = build_tokenizer(source, vocabulary)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(source.require(_TEMPLATE_KEY, str), encoding="utf-8")
    special = {name: vocabulary.texts[id_] for name, id_ in vocabulary.names.items()}
    config = {**special, "model_max_length": window, "tokenizer_class": "PreTrainedTokenizerFast"}
    write_json(folder / "tokenizer_config.json", config)
    return vocabulary

"""Everything the front knows of the model it talks for: the engine behind it sees token ids alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson
from tokenizers import Tokenizer

from runtime_server import model_folder
from runtime_server.chat_template import ChatTemplate, TemplateUnusable
from runtime_server.model_folder import ModelFolderUnusable
from runtime_server.prompt import PromptEncoder
from runtime_server.structure.compiler import GrammarCompiler
from runtime_server.token_spelling import TokenSpelling, UnsupportedDecoder


@dataclass(frozen=True, slots=True)
class ChatModel:
    """One model, ready to talk.

    Attributes:
        name: The name that requests ask for.
        folder: The version's own folder, which a later switch of the model's name does not change.
        prompts: Messages to token ids.
        spelling: Token ids to bytes.
        stop_tokens: Ids that end an answer.
        vocabulary: How many ids there are.
        grammars: Forms of answers, in its tokens.
    """

    name: str
    folder: Path
    prompts: PromptEncoder
    spelling: TokenSpelling
    stop_tokens: frozenset[int]
    vocabulary: int
    grammars: GrammarCompiler


def load_chat_model(folder: Path, name: str) -> ChatModel:
    """Read tokenizer, chat template and stop tokens from a model folder, of either format.

    Raises:
        ModelFolderUnusable: A file is missing or cannot be used; the message names it.
    """
    folder = folder.resolve()
    path = folder / "tokenizer.json"
    raw = model_folder.read_bytes(folder, "tokenizer.json")
    try:
        tokenizer = Tokenizer.from_buffer(raw)
        # Its pickled state is its part of the file; parsing all of that would take megabytes that stay scattered.
        decoder = tokenizer.decoder and orjson.loads(tokenizer.decoder.__getstate__())
        spelling = TokenSpelling(tokenizer, decoder or {})
    except UnsupportedDecoder as exc:
        raise ModelFolderUnusable(f"{path}: {exc}") from None
    except ValueError as exc:
        raise ModelFolderUnusable(f"{path} cannot be read: {exc}") from None
    special_tokens = model_folder.special_tokens(folder)
    try:
        template = ChatTemplate(model_folder.chat_template(folder), special_tokens)
    except TemplateUnusable as exc:
        raise ModelFolderUnusable(f"{folder}: {exc}") from None
    stop_tokens = model_folder.end_token_ids(folder)
    end = tokenizer.token_to_id(special_tokens.get("eos_token", ""))
    if end is not None:
        stop_tokens |= {end}
    if not stop_tokens:
        raise ModelFolderUnusable(f"{folder} names no token that ends an answer: answers would never stop.")
    return ChatModel(
        name,
        folder,
        PromptEncoder(template, tokenizer),
        spelling,
        stop_tokens,
        vocabulary=max(tokenizer.get_vocab().values()) + 1,
        grammars=GrammarCompiler(tokenizer.to_str, stop_tokens),
    )

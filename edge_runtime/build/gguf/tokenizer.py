"""`tokenizer.json` from a GGUF file's metadata: byte pairs over bytes (GPT-2's way) or SentencePiece's byte pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gguf import TokenType
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.pre_tokenizers import splitting
from edge_runtime.build.gguf.source import GgufSource
from edge_runtime.build.gguf.vocabulary import Vocabulary

_PREFIX = "tokenizer.ggml."
_SPACE = "\u2581"


def build_tokenizer(source: GgufSource, vocabulary: Vocabulary) -> Tokenizer:
    """Build the tokenizer that the file describes.

    Raises:
        NotImportable: Its kind is not supported, or what it needs is missing.
    """
    kind = source.require(f"{_PREFIX}model", str)
    if kind == "gpt2":
        tokenizer, begins = _byte_level(source, vocabulary)
    elif kind == "llama":
        tokenizer, begins = _sentencepiece(source, vocabulary), True
    else:
        raise NotImportable(f"The tokenizer `{kind}` (key `{_PREFIX}model`) is not supported; gpt2 and llama are.")
    for special, kinds in (
        (True, (TokenType.CONTROL, TokenType.UNKNOWN)),
        (False, (TokenType.USER_DEFINED,)),
    ):
        added = [
            AddedToken(vocabulary.texts[id_], normalized=False, special=special) for id_ in vocabulary.of_kind(*kinds)
        ]
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)(added)
    _frame(source, vocabulary, tokenizer, begins)
    return tokenizer


def _byte_level(source: GgufSource, vocabulary: Vocabulary) -> tuple[Tokenizer, bool]:
    how = splitting(source.require(f"{_PREFIX}pre", str))
    ids = {text: id_ for id_, text in enumerate(vocabulary.texts)}
    merges = list(_merges(source.require_list(f"{_PREFIX}merges", str), ids))
    tokenizer = Tokenizer(models.BPE(ids, merges, ignore_merges=how.whole_words))
    if how.normalizer is not None:
        tokenizer.normalizer = how.normalizer
    tokenizer.pre_tokenizer = how.pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, how.begins


def _merges(lines: Sequence[str], ids: dict[str, int]) -> Iterator[tuple[str, str]]:
    for line in lines:
        left, _, right = line.partition(" ")
        if not (left in ids and right in ids and left + right in ids):
            raise NotImportable(f"The merge {line!r} (key `{_PREFIX}merges`) is not of tokens that the file has.")
        yield left, right


def _sentencepiece(source: GgufSource, vocabulary: Vocabulary) -> Tokenizer:
    scores = source.require_list(f"{_PREFIX}scores", float)
    if len(scores) != len(vocabulary.texts):
        raise NotImportable(f"`{_PREFIX}scores` has {len(scores)} entries for {len(vocabulary.texts)} tokens.")
    if source.get(f"{_PREFIX}remove_extra_whitespaces", False):
        raise NotImportable(f"The tokenizer drops spaces (key `{_PREFIX}remove_extra_whitespaces`); not supported.")
    ids = {text: id_ for id_, text in enumerate(vocabulary.texts)}
    unknown = vocabulary.of_kind(TokenType.UNKNOWN)
    tokenizer = Tokenizer(
        models.BPE(
            ids,
            _merges_by_score(vocabulary, scores),
            unk_token=vocabulary.texts[unknown[0]] if unknown else None,
            fuse_unk=True,
            byte_fallback=bool(vocabulary.of_kind(TokenType.BYTE)),
        )
    )
    spaces: list[Any] = [normalizers.Replace(" ", _SPACE)]
    steps: list[Any] = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if source.get(f"{_PREFIX}add_space_prefix", True):
        spaces.insert(0, normalizers.Prepend(_SPACE))
        steps.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer = normalizers.Sequence(spaces)
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def _merges_by_score(vocabulary: Vocabulary, scores: Sequence[float]) -> list[tuple[str, str]]:
    """Return every way to put a token together of two others; the token with the highest score goes first.

    SentencePiece merges the neighbours whose union has the highest score, whichever neighbours those are.
    """
    normal = {vocabulary.texts[id_]: id_ for id_ in vocabulary.of_kind(TokenType.NORMAL)}
    ranked = sorted(normal, key=lambda text: -scores[normal[text]])
    return [
        (text[:at], text[at:])
        for text in ranked
        for at in range(1, len(text))
        if text[:at] in normal and text[at:] in normal
    ]


def _frame(source: GgufSource, vocabulary: Vocabulary, tokenizer: Tokenizer, begins: bool) -> None:
    """Put the tokens around a text that the file asks for."""
    around = {
        "bos_token": source.get(f"{_PREFIX}add_bos_token", begins),
        "eos_token": source.get(f"{_PREFIX}add_eos_token", False),
    }
    asked = {name: vocabulary.names.get(name) for name, add in around.items() if add}
    for name, id_ in asked.items():
        if id_ is None:
            raise NotImportable(f"The tokenizer adds a {name}, and the file does not say which token that is.")
    texts = {name: vocabulary.texts[id_] for name, id_ in asked.items() if id_ is not None}
    if not texts:
        return
    begin, end = ([texts[name]] if name in texts else [] for name in around)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*begin, "$A", *end],
        pair=[*begin, "$A:0", *end, *(f"{text}:1" for text in begin), "$B:1", *(f"{text}:1" for text in end)],
        special_tokens=[(text, id_) for (name, text) in texts.items() if (id_ := vocabulary.names[name]) is not None],
    )

"""Tokenizers out of a file's metadata."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from gguf import TokenType
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from edge_runtime.build.gguf.folder import write_folder, write_tokenizer
from edge_runtime.build.gguf.source import GgufSource
from edge_runtime.build.held_out import ENGLISH, LANGUAGES
from runtime_server.chat_model import load_chat_model
from runtime_server.model_folder import end_token_ids
from tests.support.gguf_files import SPECIAL, Contents, make_contents

NORMAL, UNKNOWN, CONTROL, USER, BYTE = (
    int(kind)
    for kind in (TokenType.NORMAL, TokenType.UNKNOWN, TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.BYTE)
)


def tokenizer_of(made: Contents, tmp_path: Path) -> Tokenizer:
    write_tokenizer(GgufSource(made.write(tmp_path / "model.gguf")), tmp_path, window=64)
    return Tokenizer.from_file(str(tmp_path / "tokenizer.json"))


@pytest.fixture(scope="module")
def trained() -> tuple[list[str], list[str]]:
    """Tokens and merges that a real training on the held-out texts gives."""
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([ENGLISH, *LANGUAGES], BpeTrainer(vocab_size=900, initial_alphabet=alphabet))
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return tokens, [" ".join(merge) for merge in model["merges"]]


def with_vocabulary(trained: tuple[list[str], list[str]], pre: str) -> Contents:
    made, (tokens, merges) = make_contents(), trained
    everything = [*tokens, *SPECIAL, "<tool>"]
    made.keys |= {
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": everything,
        "tokenizer.ggml.token_type": [*[NORMAL] * len(tokens), *[CONTROL] * len(SPECIAL), USER],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": len(tokens) + 1,
        "tokenizer.ggml.eos_token_id": len(tokens) + 2,
    }
    return made


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "qwen2", "llama-bpe", "tekken"])
def test_texts_in_many_languages_come_back_as_they_were(trained, tmp_path: Path, pre: str) -> None:
    tokenizer = tokenizer_of(with_vocabulary(trained, pre), tmp_path)
    for text in (ENGLISH, *LANGUAGES, " leading", "trailing ", "a\u00a0b"):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids) == text
        assert len(ids) < len(text.encode()) or len(text) < 12


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("gpt-2", ["It", "'s", " 1234", " we", "'", "LL", "  \n", " xY"]),  # knows lower-case contractions only
        ("smollm", ["It", "'s", " ", "1", "2", "3", "4", " we", "'", "LL", "  \n", " xY"]),
        ("qwen2", ["It", "'s", " ", "1", "2", "3", "4", " we", "'LL", "  \n", " xY"]),
        ("llama-bpe", ["It", "'s", " ", "123", "4", " we", "'LL", "  \n", " xY"]),
        ("tekken", ["It", "'s", " ", "1", "2", "3", "4", " we", "'LL", "  \n", " x", "Y"]),
    ],
)
def test_text_is_cut_as_the_rule_of_that_name_cuts_it(trained, tmp_path: Path, pre: str, pieces: list[str]) -> None:
    tokenizer = tokenizer_of(with_vocabulary(trained, pre), tmp_path)
    cut = [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str("It's 1234 we'LL  \n xY")]
    spelled = [decoders.ByteLevel().decode([piece]) for piece in cut]
    assert spelled == pieces


@pytest.mark.parametrize(("pre", "whole"), [("llama-bpe", True), ("tekken", True), ("qwen2", False), ("smollm", False)])
def test_a_word_that_is_a_token_is_taken_whole_where_the_rule_says_so(trained, tmp_path: Path, pre, whole) -> None:
    made = with_vocabulary(trained, pre)
    tokens = made.keys["tokenizer.ggml.tokens"]
    kinds = made.keys["tokenizer.ggml.token_type"]
    made.keys |= {"tokenizer.ggml.tokens": [*tokens, "qxqxq"], "tokenizer.ggml.token_type": [*kinds, NORMAL]}
    assert (tokenizer_of(made, tmp_path).encode("qxqxq", add_special_tokens=False).tokens == ["qxqxq"]) is whole


@pytest.mark.parametrize(("pre", "composes"), [("qwen2", True), ("llama-bpe", False), ("smollm", False)])
def test_text_is_brought_into_normal_form_where_the_rule_says_so(trained, tmp_path: Path, pre, composes) -> None:
    tokenizer = tokenizer_of(with_vocabulary(trained, pre), tmp_path)
    decomposed = "u\u0308ber"
    found = tokenizer.decode(tokenizer.encode(decomposed, add_special_tokens=False).ids)
    assert found == ("\u00fcber" if composes else decomposed)


def test_control_tokens_are_special_and_user_defined_ones_are_text(trained, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(with_vocabulary(trained, "smollm"), tmp_path)
    ids = tokenizer.encode("<|im_start|>the<tool><|im_end|>").ids
    assert [tokenizer.id_to_token(id_) for id_ in (ids[0], ids[-2], ids[-1])] == [
        "<|im_start|>",
        "<tool>",
        "<|im_end|>",
    ]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "the<tool>"


@pytest.mark.parametrize(
    ("pre", "keys", "begins"),
    [("smollm", {}, False), ("llama-bpe", {}, True), ("llama-bpe", {"tokenizer.ggml.add_bos_token": False}, False)],
)
def test_a_text_begins_with_the_token_that_the_file_wants(trained, tmp_path: Path, pre, keys, begins) -> None:
    made = with_vocabulary(trained, pre)
    made.keys |= keys
    ids = tokenizer_of(made, tmp_path).encode("the").ids
    assert (ids[0] == made.keys["tokenizer.ggml.bos_token_id"]) is begins


def test_the_server_can_talk_through_the_folder_and_stops_where_the_file_ends_an_answer(
    trained, tmp_path: Path
) -> None:
    made = make_contents()
    (tmp_path / "folder").mkdir()
    write_folder(made.write(tmp_path / "model.gguf"), tmp_path / "folder")
    model = load_chat_model(tmp_path / "folder", "tiny")
    start, end = 257, 258
    assert model.prompts.encode([{"role": "user", "content": "the"}])[0] == start
    assert model.stop_tokens == end_token_ids(tmp_path / "folder") == {end, 256}
    assert model.spelling[259] == b"th"


def sentencepiece(tmp_path: Path, **keys: object) -> tuple[Tokenizer, list[str]]:
    words = ["\u2581", "t", "h", "e", "r", "i", "th", "he", "the", "\u2581the", "er", "there", "\u2581t", "re"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *bytes_, *words]
    made = make_contents()
    for key in ("tokenizer.ggml.pre", "tokenizer.ggml.merges"):
        del made.keys[key]
    made.keys |= {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(words)],
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(rank) for rank in range(len(words))],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        **keys,
    }
    return tokenizer_of(made, tmp_path), words


def merged_by_score(text: str, words: list[str]) -> list[str]:
    """SentencePiece's byte pairs: the best-scored union of neighbours first, of equals the leftmost."""
    pieces = list(text.replace(" ", "\u2581"))
    while True:
        unions = [(words.index(a + b), at) for at, (a, b) in enumerate(itertools.pairwise(pieces)) if a + b in words]
        if not unions:
            return pieces
        _, at = min(unions)
        pieces[at : at + 2] = ["".join(pieces[at : at + 2])]


@pytest.mark.parametrize("text", ["the", "there there", "thethe re", "  her e", "ttthhheee"])
def test_sentencepieces_merge_by_score(tmp_path: Path, text: str) -> None:
    tokenizer, words = sentencepiece(tmp_path)
    assert tokenizer.encode(text, add_special_tokens=False).tokens == merged_by_score(" " + text, words)
    assert tokenizer.encode(text).ids[0] == 1


def test_sentencepieces_without_a_space_in_front_and_bytes_for_what_has_no_piece(tmp_path: Path) -> None:
    tokenizer, words = sentencepiece(tmp_path, **{"tokenizer.ggml.add_space_prefix": False})
    assert tokenizer.encode("there", add_special_tokens=False).tokens == merged_by_score("there", words)
    for text in ("the 😀 é", *LANGUAGES):
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids) == text

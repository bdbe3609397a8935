"""How text is cut into words before byte pairs are merged: GGUF gives only a name, llama.cpp says what each means.

A guess would read text, and count tokens, wrongly without anyone noticing, so a name that is not here is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, normalizers, pre_tokenizers

from edge_runtime.build.errors import NotImportable

# The rules of GPT-4's tokenizer, which the others vary: contractions, words with the mark before them, digits in
# groups of at most `{digits}`, runs of signs with the ends of lines after them, ends of lines, spaces.
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
# Mistral's: a word ends before the capital that begins the next one.
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CAPITALIZED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    rf"|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
)


@dataclass(frozen=True, slots=True)
class Splitting:
    """What a name stands for.

    Attributes:
        pre_tokenizer: Cuts text and writes its bytes in the byte-level alphabet.
        normalizer: Applied before it, if anything is.
        whole_words: Whether a word that is a token is taken as it is, whatever its merges would make of it.
        begins: Whether a text begins with the beginning-of-sequence token unless the file says otherwise.
    """

    pre_tokenizer: Any
    normalizer: Any = None
    whole_words: bool = False
    begins: bool = False


def splitting(name: str) -> Splitting:
    """Return what the value of `tokenizer.ggml.pre` stands for.

    Raises:
        NotImportable: It is not known here.
    """
    match name:
        case "gpt-2":
            return Splitting(pre_tokenizers.ByteLevel(add_prefix_space=False))
        case "smollm" | "starcoder" | "refact" | "command-r":
            digits = pre_tokenizers.Digits(individual_digits=True)
            return Splitting(pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]))
        case "qwen2" | "deepseek-r1-qwen":
            return Splitting(_by_pattern(rf"{_WORDS}|\p{{N}}|{_SIGNS}|{_SPACES}"), normalizers.NFC())
        case "llama-bpe" | "llama3" | "llama-v3":
            pattern = rf"{_WORDS}|\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}"
            return Splitting(_by_pattern(pattern), whole_words=True, begins=True)
        case "tekken":
            return Splitting(_by_pattern(_CAPITALIZED), whole_words=True, begins=True)
        case _:
            raise NotImportable(
                f"The tokenizer splits text by the rule `{name}` (key `tokenizer.ggml.pre`), unknown here."
            )


def _by_pattern(pattern: str) -> Any:
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

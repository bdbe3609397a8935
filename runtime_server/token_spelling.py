"""Which bytes each token stands for, so that text can be put together one token at a time.

A token of today's vocabularies need not be whole characters: one emoji may be four tokens of one byte each. Bytes need
no guess whether a character is complete, cost the same at the thousandth token as at the first, and joined they are
what decoding all tokens at once would give.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tokenizers import Tokenizer

_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_WORD_START = "\u2581"  # the lower one-eighth block, in which SentencePiece writes a space
_SENTENCEPIECE_STEPS = frozenset({"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"})


class UnsupportedDecoder(Exception):
    """The tokenizer turns ids into text in a way that is not a matter of each token's bytes."""


class TokenSpelling:
    """Token id to bytes. Special tokens, and ids that stand for nothing, are empty."""

    def __init__(self, tokenizer: Tokenizer, decoder: Mapping[str, Any]) -> None:
        """Choose how tokens are spelled.

        Args:
            tokenizer: Gives the token of an id.
            decoder: The member `decoder` of `tokenizer.json`.

        Raises:
            UnsupportedDecoder: It is neither byte-level nor SentencePiece's.
        """
        steps = set(_steps(decoder))
        if "ByteLevel" in steps:
            self._spell: Callable[[str], bytes] = functools.partial(_spell_byte_level, byte_alphabet())
        elif steps and steps <= _SENTENCEPIECE_STEPS:
            self._spell = _spell_sentencepiece
        else:
            raise UnsupportedDecoder(
                f"The tokenizer's decoder ({', '.join(sorted(steps)) or 'none'}) cannot be streamed: "
                "only byte-level and SentencePiece decoders can."
            )
        self._tokenizer = tokenizer
        # Added tokens are spelled as they stand; special ones are control, not text.
        self._bytes = {
            id_: b"" if token.special else token.content.encode()
            for id_, token in tokenizer.get_added_tokens_decoder().items()
        }

    def __getitem__(self, id_: int) -> bytes:
        """Return what the token adds to the text."""
        found = self._bytes.get(id_)
        if found is None:
            token = self._tokenizer.id_to_token(id_)
            found = self._bytes[id_] = b"" if token is None else self._spell(token)
        return found


def byte_alphabet() -> dict[str, int]:
    """Return the character that stands for each byte in a byte-level vocabulary, as GPT-2's encoder defined it.

    Printable Latin-1 characters stand for their own code; the other bytes, in order, for the characters from U+0100.
    """
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = (byte for byte in range(0x100) if byte not in own)
    return {chr(byte): byte for byte in own} | {chr(0x100 + at): byte for at, byte in enumerate(rest)}


def _steps(decoder: Mapping[str, Any]) -> Iterator[str]:
    if decoder.get("type") == "Sequence":
        for step in decoder.get("decoders", ()):
            yield from _steps(step)
    elif "type" in decoder:
        yield str(decoder["type"])


def _spell_byte_level(alphabet: Mapping[str, int], token: str) -> bytes:
    try:
        return bytes(alphabet[char] for char in token)
    except KeyError:  # a character outside the alphabet: the token is plain text
        return token.encode()


def _spell_sentencepiece(token: str) -> bytes:
    byte = _FALLBACK.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace(_WORD_START, " ").encode()

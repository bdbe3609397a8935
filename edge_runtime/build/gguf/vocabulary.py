"""The tokens of a GGUF file and what each is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gguf import TokenType

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.source import GgufSource

_PREFIX = "tokenizer.ggml."
# Files name one end of an answer; a chat model ends its turn with one of these where it has them.
_ENDS_OF_TURN = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id.

    Attributes:
        texts: As the file writes them: in the byte-level alphabet, or with `▁` for a space.
        kinds: What each is for.
        names: `bos_token` and the like, to id.
        ends: Ids that end an answer, the file's own first.
    """

    texts: Sequence[str]
    kinds: Sequence[TokenType]
    names: dict[str, int]
    ends: tuple[int, ...]

    def of_kind(self, *kinds: TokenType) -> list[int]:
        """Return the ids of the tokens that are of one of these kinds."""
        return [id_ for id_, kind in enumerate(self.kinds) if kind in kinds]


def read_vocabulary(source: GgufSource) -> Vocabulary:
    """Read tokens, their kinds and the special ones among them.

    Raises:
        NotImportable: A key is missing, or an id stands for no token.
    """
    texts = source.require_list(f"{_PREFIX}tokens", str)
    numbers = source.require_list(f"{_PREFIX}token_type", int)
    if len(numbers) != len(texts):
        raise NotImportable(f"`{_PREFIX}token_type` has {len(numbers)} entries for {len(texts)} tokens.")
    if len(set(texts)) != len(texts):
        raise NotImportable(f"`{_PREFIX}tokens` holds a token twice.")
    try:
        kinds = [TokenType(number) for number in numbers]
    except ValueError as error:
        raise NotImportable(f"`{_PREFIX}token_type`: {error}.") from None
    found = {
        name: source.find(f"{_PREFIX}{key}_token_id", int)
        for name, key in (
            ("bos_token", "bos"),
            ("eos_token", "eos"),
            ("unk_token", "unknown"),
            ("pad_token", "padding"),
        )
    }
    names = {name: id_ for name, id_ in found.items() if id_ is not None}
    stated = [names.get("eos_token"), *(source.find(f"{_PREFIX}{key}_token_id", int) for key in ("eot", "eom"))]
    ends = [id_ for id_ in stated if id_ is not None]
    for name, id_ in [*names.items(), *(("end", id_) for id_ in ends)]:
        if not 0 <= id_ < len(texts):
            raise NotImportable(f"The file's {name} is token {id_}, and there are {len(texts)}.")
    if not ends:
        raise NotImportable(f"The file lacks the key `{_PREFIX}eos_token_id`: answers would never end.")
    ends += [
        texts.index(text) for text in _ENDS_OF_TURN if text in texts and kinds[texts.index(text)] != TokenType.NORMAL
    ]
    return Vocabulary(texts, kinds, names, tuple(dict.fromkeys(ends)))

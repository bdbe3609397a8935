"""From the inputs of a request to token ids, each within the model's window."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from inference_protocol.errors import ContextLengthExceeded
from inference_protocol.openai_embedding import Input
from runtime_server import model_folder
from runtime_server.generation_job import refuse_unknown_tokens
from runtime_server.model_folder import ModelFolderUnusable


class InputEncoder:
    """Encodes with one model's tokenizer. Safe to call from several threads."""

    def __init__(self, tokenizer: Tokenizer, window: int) -> None:
        """Encode for inputs of at most `window` tokens."""
        # Published tokenizers bring both along, set for their training: texts would be cut and padded without a word.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._window = window
        self._vocabulary = max(tokenizer.get_vocab().values()) + 1

    def encode(self, inputs: Sequence[Input], *, truncate: int | None = None) -> list[tuple[int, ...]]:
        """Return the token ids of each input; those that came as ids stay as they are.

        Args:
            inputs: As `inference_protocol.openai_embedding` read them.
            truncate: Tokens that a longer input is cut to, -1 for the window; `None` cuts nothing.

        Raises:
            ContextLengthExceeded: An input is longer than the window; `param` names it.
            InvalidField: An id is no token.
        """
        cut = None if truncate is None else min(self._window, truncate if truncate > 0 else self._window)
        return [self._encode(given, at, cut) for at, given in enumerate(inputs)]

    def _encode(self, given: Input, at: int, cut: int | None) -> tuple[int, ...]:
        if isinstance(given, str):
            ids = self._text(given, cut)
        else:
            refuse_unknown_tokens(given, self._vocabulary, f"input[{at}]")
            ids = given[:cut]
        if len(ids) > self._window:
            raise ContextLengthExceeded(
                f"`input[{at}]` has {len(ids)} tokens and the model takes {self._window} of one input. Cut it into "
                "several, or have the rest ignored with `truncate_prompt_tokens: -1`.",
                param=f"input[{at}]",
                details={"n_prompt": len(ids), "window": self._window},
            )
        return ids

    def _text(self, text: str, cut: int | None) -> tuple[int, ...]:
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        if cut is not None:
            encoded.truncate(max(0, cut - self._tokenizer.num_special_tokens_to_add(is_pair=False)))
        return tuple(self._tokenizer.post_process(encoded).ids)


def load_encoder(folder: Path, window: int) -> InputEncoder:
    """Read a model folder's tokenizer.

    Raises:
        ModelFolderUnusable: It is missing or cannot be read.
    """
    raw = model_folder.read_bytes(folder, "tokenizer.json")
    try:
        return InputEncoder(Tokenizer.from_buffer(raw), window)
    except ValueError as exc:
        raise ModelFolderUnusable(f"{folder / 'tokenizer.json'} cannot be read: {exc}") from None

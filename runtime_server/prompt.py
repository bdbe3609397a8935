"""From messages to the token ids of a prompt, so that nothing a caller writes can act as a control token.

A caller may write `<|im_end|>` into a message, to close their turn and open one of the system's. The template's own
control tokens must be read as such and theirs must not. So each special token in the caller's text is replaced by a
mark that cannot be guessed before the template runs; afterwards the marks are replaced by the token's text, encoded as
text. Everything else is encoded in one piece with the template around it, exactly as the model was trained: cutting
at every message would change how white space at their edges is encoded.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from inference_protocol.errors import CapabilityUnavailable, InvalidField
from inference_protocol.strings import has_lone_surrogate
from runtime_server.chat_template import ChatTemplate


class PromptEncoder:
    """Applies a model's chat template and tokenizer. Safe to call from several threads."""

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        """Learn the tokenizer's special tokens.

        Args:
            template: The model's.
            tokenizer: The model's. Truncation and padding are switched off in it.
        """
        self._template = template
        self._tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        special = {id_: token.content for id_, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        tokenizer.encode_special_tokens = True
        self._as_text = {text: [id_ for id_ in self._encode(text) if id_ not in special] for text in special.values()}
        tokenizer.encode_special_tokens = False
        longest_first = sorted(self._as_text, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Return the prompt for the assistant's next turn.

        Args:
            messages: As `inference_protocol.openai_chat` accepted them.

        Raises:
            InvalidField: The template does not take them, or they hold what is no Unicode text.
            CapabilityUnavailable: A part of one is not text.
        """
        secret = secrets.token_hex(16)
        hidden: list[str] = []

        def hide(match: re.Match[str]) -> str:
            hidden.append(match[0])
            return f"{secret}:{len(hidden) - 1}:"

        texts = [{**message, "content": _text_of(message, at)} for at, message in enumerate(messages)]
        rendered = self._template.render([_map_strings(m, lambda s: self._special.sub(hide, s)) for m in texts])
        if has_lone_surrogate(rendered):
            raise InvalidField("`messages` hold half of a surrogate pair, which is no text.", param="messages")
        pieces = re.split(f"{secret}:([0-9]+):", rendered) if hidden else [rendered]
        ids = self._encode(pieces[0])
        for index, piece in zip(pieces[1::2], pieces[2::2], strict=True):
            ids += self._as_text[hidden[int(index)]]
            ids += self._encode(piece)
        if not ids:
            raise InvalidField("`messages` come to an empty prompt.", param="messages")
        return tuple(ids)

    def _encode(self, text: str) -> list[int]:
        # The template writes the tokens that begin a prompt itself; adding them here would double them.
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def _text_of(message: Mapping[str, Any], at: int) -> str:
    """Return a message's content as one string; parts of a list are paragraphs, as other servers join them."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    for index, part in enumerate(content):
        if part["type"] != "text":
            raise CapabilityUnavailable("This runtime reads text only.", param=f"messages[{at}].content[{index}]")
    return "\n".join(part["text"] for part in content)


def _map_strings(node: Any, change: Callable[[str], str]) -> Any:
    if isinstance(node, str):
        return change(node)
    if isinstance(node, Mapping):
        return {key: _map_strings(value, change) for key, value in node.items()}
    if isinstance(node, list):
        return [_map_strings(item, change) for item in node]
    return node

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
from inference_protocol.tools import Tool
from runtime_server.chat_template import LONGEST_S, ChatTemplate
from runtime_server.tools.in_words import checked_calls, told_in_words


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

    def encode(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool] = (), *, patience_s: float = LONGEST_S
    ) -> tuple[int, ...]:
        """Return the prompt for the assistant's next turn.

        Args:
            messages: As `inference_protocol.openai_chat` accepted them.
            tools: That the model may call.
            patience_s: The time that the template has.

        Raises:
            InvalidField: The template does not take them, or they hold what is no Unicode text.
            CapabilityUnavailable: A part of one is not text.
            TemplateTooSlow: The template's time was over.
        """
        return self.render(messages, tools, patience_s=patience_s)[0]

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Tool] = (),
        *,
        opens_answer: bool = True,
        patience_s: float = LONGEST_S,
    ) -> tuple[tuple[int, ...], str]:
        """Return the prompt and the text that it was encoded from.

        Args:
            messages: As `inference_protocol.openai_chat` accepted them.
            tools: That the model may call.
            opens_answer: Whether the assistant's next turn is begun.
            patience_s: The time that the template has.

        Raises:
            InvalidField: The template does not take them, or they hold what is no Unicode text.
            CapabilityUnavailable: A part of one is not text.
            TemplateTooSlow: The template's time was over.
        """
        secret = secrets.token_hex(16)
        hidden: list[str] = []

        def hide(match: re.Match[str]) -> str:
            hidden.append(match[0])
            return f"{secret}:{len(hidden) - 1}:"

        def mask(node: Any) -> Any:
            return _map_strings(node, lambda text: self._special.sub(hide, text))

        texts = [{**message, "content": _text_of(message, at)} for at, message in enumerate(messages)]
        definitions = [tool.definition for tool in tools]
        manner: Any = {"opens_answer": opens_answer, "patience_s": patience_s}
        if self._template.shows_tools:
            with_calls = [_with_read_calls(message, at) for at, message in enumerate(texts)]
            rendered = self._template.render(mask(with_calls), mask(definitions), **manner)
        else:
            rendered = self._template.render(mask(told_in_words(texts, definitions)), **manner)
        _refuse_surrogates(rendered, "messages")
        pieces = re.split(f"{secret}:([0-9]+):", rendered) if hidden else [rendered]
        ids, shown = self._encode(pieces[0]), [pieces[0]]
        for index, piece in zip(pieces[1::2], pieces[2::2], strict=True):
            text = hidden[int(index)]
            ids += self._as_text[text]
            ids += self._encode(piece)
            shown += [text, piece]
        if not ids:
            raise InvalidField("`messages` come to an empty prompt.", param="messages")
        return tuple(ids), "".join(shown)

    def encode_text(self, text: str, *, adds_special_tokens: bool = True) -> tuple[int, ...]:
        """Return the tokens of a prompt that is all the caller's: control tokens in it are control.

        Args:
            text: The prompt.
            adds_special_tokens: Whether those are put around it that the tokenizer puts around every text.

        Raises:
            InvalidField: It is no Unicode text, or comes to no token.
        """
        _refuse_surrogates(text, "prompt")
        ids = tuple(self._tokenizer.encode(text, add_special_tokens=adds_special_tokens).ids)
        if not ids:
            raise InvalidField("`prompt` comes to no token.", param="prompt")
        return ids

    def token(self, id_: int) -> str | None:
        """Return a token as the vocabulary has it, or `None` where there is none of that id."""
        return self._tokenizer.id_to_token(id_)

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


def _with_read_calls(message: Mapping[str, Any], at: int) -> Mapping[str, Any]:
    """Return a message whose calls have their arguments as objects, which is what templates print."""
    if not message.get("tool_calls"):
        return message
    calls = [{"type": "function", "function": call} for call in checked_calls(message, at)]
    return {**message, "tool_calls": calls}


def _refuse_surrogates(text: str, field: str) -> None:
    if has_lone_surrogate(text):
        raise InvalidField(f"`{field}` holds half of a surrogate pair, which is no text.", param=field)


def _map_strings(node: Any, change: Callable[[str], str]) -> Any:
    if isinstance(node, str):
        return change(node)
    if isinstance(node, Mapping):
        return {change(key): _map_strings(value, change) for key, value in node.items()}
    if isinstance(node, list):
        return [_map_strings(item, change) for item in node]
    return node

"""Log probabilities in the two shapes that OpenAI's API has for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from runtime_server.engine import TokenLogprob
from runtime_server.token_spelling import TokenSpelling


def chat_logprobs(found: Iterable[TokenLogprob], spelling: TokenSpelling) -> list[dict[str, Any]]:
    """Return `logprobs.content` of a chat's choice. A token's bytes say what its text cannot: a part of an emoji."""
    return [
        {**_entry(each.token, each.logprob, spelling), "top_logprobs": [_entry(*top, spelling) for top in each.top]}
        for each in found
    ]


class CompletionLogprobs:
    """`logprobs` of a completion's choice as it comes. Offsets count characters, also an echoed prompt's."""

    def __init__(self, spelling: TokenSpelling) -> None:
        """Begin a text."""
        self._spelling = spelling
        self._offset = 0

    def of(self, found: Sequence[TokenLogprob | int]) -> dict[str, Any]:
        """Return the member for the next tokens; a bare id has nothing before it that would make it likely."""
        members: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for each in found:
            token = each if isinstance(each, int) else each.token
            spelled = _spelled(token, self._spelling)
            members["tokens"].append(spelled)
            members["text_offset"].append(self._offset)
            self._offset += len(self._spelling[token].decode("utf-8", "ignore"))
            if isinstance(each, int):
                members["token_logprobs"].append(None)
                members["top_logprobs"].append(None)
                continue
            tops = {_spelled(at, self._spelling): logprob for at, logprob in reversed(each.top)}
            tops.setdefault(spelled, each.logprob)
            members["token_logprobs"].append(each.logprob)
            members["top_logprobs"].append(tops)
        return members


def _entry(token: int, logprob: float, spelling: TokenSpelling) -> dict[str, Any]:
    raw = spelling[token]
    return {"token": raw.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(raw)}


def _spelled(token: int, spelling: TokenSpelling) -> str:
    """Return a token as the older API spells it: what is no text by itself, by its bytes; control tokens, by id."""
    raw = spelling[token]
    if not raw:
        return f"token_id:{token}"
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)

"""The texts of an answer that a person or a program reads, each a channel of its own: what rewrites them stands behind.

What comes for a channel is fed to it, and what it returns takes its place. What it holds back goes out once it is clear
that nothing follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

_TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "refusal")
ChannelKey = tuple[Any, ...]
"""The choice, and which of its texts."""


class Channel(Protocol):
    """One text of an answer as it comes, piece by piece."""

    def feed(self, text: str) -> str:
        """Take the next piece, and return what can be shown by now."""
        ...

    def rest(self) -> str:
        """Return what was held back, once it is clear that nothing follows."""
        ...


class AnswerTexts:
    """Rewrites the chunks of one streamed answer, or one that came whole."""

    def __init__(self, opened: Callable[[ChannelKey], Channel], *, keeps_logprobs: bool = True) -> None:
        """Start at the beginning of an answer.

        Args:
            opened: Opens each of its channels.
            keeps_logprobs: Whether log probabilities stay, which hold the text once more, as it came.
        """
        self._opened = opened
        self._keeps_logprobs = keeps_logprobs
        self._channels: dict[ChannelKey, Channel] = {}

    def rewrite(self, tree: dict[str, Any], *, is_whole: bool = False) -> None:
        """Rewrite one parsed chunk in place. A choice that is finished, or whole, gets what was held back of it."""
        for position, choice in enumerate(_objects(tree.get("choices"))):
            index = choice.get("index", position)
            if not self._keeps_logprobs and "logprobs" in choice:
                choice["logprobs"] = None
            if isinstance(choice.get("text"), str):
                choice["text"] = self._channel((index, "text")).feed(choice["text"])
            part = choice.get("delta", choice.get("message"))
            if isinstance(part, dict):
                self._rewrite_part(index, part)
            if is_whole or choice.get("finish_reason"):
                for key, text in self._rest(index):
                    _append(choice, "message" if "message" in choice else "delta", key, text)

    def rest(self) -> list[dict[str, Any]]:
        """Return choices with what is still held back, for an answer that ends without finishing them."""
        found: dict[Any, dict[str, Any]] = {}
        for index in list(dict.fromkeys(key[0] for key in self._channels)):
            for key, text in self._rest(index):
                empty: dict[str, Any] = {"text": ""} if key[1] == "text" else {"delta": {}}
                choice = found.setdefault(index, {"index": index, **empty, "finish_reason": None})
                _append(choice, "delta", key, text)
        return list(found.values())

    def _rewrite_part(self, index: Any, part: dict[str, Any]) -> None:
        for field in _TEXT_FIELDS:
            if isinstance(part.get(field), str):
                part[field] = self._channel((index, field)).feed(part[field])
        for position, call in enumerate(_objects(part.get("tool_calls"))):
            self._rewrite_arguments((index, "tool_calls", call.get("index", position)), call.get("function"))
        self._rewrite_arguments((index, "function_call"), part.get("function_call"))

    def _rewrite_arguments(self, key: ChannelKey, function: Any) -> None:
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            function["arguments"] = self._channel(key).feed(function["arguments"])

    def _channel(self, key: ChannelKey) -> Channel:
        if key not in self._channels:
            self._channels[key] = self._opened(key)
        return self._channels[key]

    def _rest(self, index: Any) -> Iterator[tuple[ChannelKey, str]]:
        for key, channel in self._channels.items():
            if key[0] == index and (text := channel.rest()):
                yield key, text


def _append(choice: dict[str, Any], name: str, key: ChannelKey, text: str) -> None:
    """Add text to the channel of a choice that it belongs to."""
    if key[1] == "text":
        _append_to(choice, "text", text)
        return
    part = choice.get(name)
    if not isinstance(part, dict):
        part = choice[name] = {}
    match key:
        case (_, "tool_calls", call):
            calls = part.setdefault("tool_calls", [])
            found = next((each for at, each in enumerate(_objects(calls)) if each.get("index", at) == call), None)
            if found is None:
                calls.append({"index": call, "function": {"arguments": text}})
            else:
                _append_to(found.setdefault("function", {}), "arguments", text)
        case (_, "function_call"):
            _append_to(part.setdefault("function_call", {}), "arguments", text)
        case (_, field):
            _append_to(part, field, text)


def _append_to(part: dict[str, Any], field: str, text: str) -> None:
    part[field] = (part.get(field) or "") + text


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
